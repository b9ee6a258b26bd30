"""Reads a Hugging Face model folder: its config.json and its weights, in any format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention.errors import CheckpointError, ConfigFileError
from evolving_attention.interop.config_rules import check_config
from evolving_attention.interop.evolving_mark import (
    EVOLVING,
    base_type,
    is_marked,
)
from evolving_attention.interop.json_file import parse_object, read_object
from evolving_attention.interop.limits import (
    MAX_CONFIG_BYTES,
    MAX_INDEX_BYTES,
    MAX_TENSORS,
    check_tensor_name,
)
from evolving_attention.interop.paths import (
    InputFile,
    advice_inside,
    check_basename,
    open_inside,
    present,
    read_inside,
)
from evolving_attention.interop.safetensors_io import read_safetensors
from evolving_attention.interop.torch_bin import read_torch_bin

CONFIG_NAME = "config.json"

Reader = Callable[[InputFile], dict[str, np.ndarray]]

# In order of preference; an index lists the shards of the format before it.
_FORMATS: tuple[tuple[str, Reader, bool], ...] = (
    ("model.safetensors", read_safetensors, False),
    ("model.safetensors.index.json", read_safetensors, True),
    ("pytorch_model.bin", read_torch_bin, False),
    ("pytorch_model.bin.index.json", read_torch_bin, True),
)
_MARKED = tuple(
    (EVOLVING + name, reader, is_index) for name, reader, is_index in _FORMATS[:2]
)
WEIGHT_NAMES = tuple(name for name, _, _ in (*_FORMATS, *_MARKED))


@dataclass(frozen=True)
class CheckpointFolder:
    """The contents of a model folder.

    Attributes:
        path: the folder.
        config: its config.json.
        tensors: name to array, as in the files; not yet matched with a model.
        files: names of the weight files read.
        nbytes: number of bytes of the weight files.
    """

    path: Path
    config: dict[str, Any]
    tensors: dict[str, np.ndarray]
    files: tuple[str, ...]
    nbytes: int

    @property
    def model_type(self) -> str | None:
        """``"bert"``, ``"roberta"``, …: from the config, else from the tensor names.

        The mark of :mod:`.evolving_mark` is removed. Configs from before 2020 have no
        ``model_type``.
        """
        said = base_type(self.config)
        if isinstance(said, str):
            return said
        for prefix in ("bert", "roberta"):
            if any(name.startswith(f"{prefix}.") for name in self.tensors):
                return prefix
        return None

    @property
    def dtype(self) -> str:
        """Element type of the weights: as in the config, else of the first floats."""
        said = self.config.get("dtype", self.config.get("torch_dtype"))
        floats = (a for a in self.tensors.values() if a.dtype.kind not in "iub")
        return said or str(getattr(next(floats, None), "dtype", "float32"))


def load_config(folder: str | Path) -> dict[str, Any]:
    """Read and check the config.json of a model folder.

    Raises:
        CheckpointError: there is no config.json, or it is not a regular file.
        ConfigFileError: the file is not a JSON object.
        ConfigError: a value is out of range; the message names the file and the key.
    """
    root = Path(folder)
    if not present(root, CONFIG_NAME):
        advice = advice_inside(root, CONFIG_NAME) or "give another folder"
        raise CheckpointError(
            f"{root / CONFIG_NAME}: no such file; expected a model folder as "
            f"save_pretrained writes it; {advice}"
        )
    data = read_inside(root, CONFIG_NAME, MAX_CONFIG_BYTES)
    source = str(root / CONFIG_NAME)
    config = parse_object(data, source, ConfigFileError)
    check_config(config, source)
    return config


def load_folder(path: str | Path) -> CheckpointFolder:
    """Read a model folder: config.json and weights.

    Reads the first existing one of ``model.safetensors``, its index
    ``model.safetensors.index.json`` with shards, ``pytorch_model.bin``, and its index;
    for a marked config (:mod:`.evolving_mark`), ``evolving_model.safetensors`` or its
    index. Opens no file outside the folder.

    Args:
        path: the folder; see :func:`~.resolve.resolve` for names.

    Raises:
        ConfigError: as :func:`load_config`.
        UnsafeCheckpointError: a .bin file asks for more than weights need.
        CheckpointError: files are missing, damaged, or point outside the folder.
    """
    root = Path(path)
    if not root.is_dir():
        raise CheckpointError(f"{root}: is not a folder; expected a model folder")
    config = load_config(root)
    formats = _MARKED if is_marked(config) else _FORMATS
    for name, reader, is_index in formats:
        if not present(root, name):
            continue
        if is_index:
            tensors, files, nbytes = _load_shards(root, name, reader)
        else:
            with open_inside(root, name) as file:
                tensors, files, nbytes = reader(file), (name,), file.size
        return CheckpointFolder(root, config, tensors, files, nbytes)
    raise CheckpointError(
        f"{root}: has no weights; looked for {', '.join(n for n, _, _ in formats)}"
        ". Download the model's weights into this folder"
    )


def _load_shards(
    root: Path, index_name: str, reader: Reader
) -> tuple[dict[str, np.ndarray], tuple[str, ...], int]:
    """Read the shards of an index; every tensor must be in the file given there."""
    source = str(root / index_name)
    index = read_object(root, index_name, MAX_INDEX_BYTES)
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not 0 < len(weight_map) <= MAX_TENSORS:
        raise CheckpointError(
            f"{source}: has no 'weight_map' from tensor names to files; get it again"
        )
    by_file: dict[str, list[str]] = {}
    for name, file_name in weight_map.items():
        plain = check_basename(file_name, source)
        by_file.setdefault(plain, []).append(check_tensor_name(name, source))
    tensors: dict[str, np.ndarray] = {}
    nbytes = 0
    for file_name, names in by_file.items():
        with open_inside(root, file_name, source) as file:
            shard = reader(file)
            nbytes += file.size
        for name in names:
            if name not in shard:
                raise CheckpointError(
                    f"{source}: says that {name} is in {file_name}, which has no such "
                    "tensor; get both files again"
                )
            tensors[name] = shard[name]
    return tensors, (index_name, *by_file), nbytes
