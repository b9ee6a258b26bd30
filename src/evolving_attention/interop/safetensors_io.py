"""Reads and writes safetensors files, whole or in shards, through the library.

The header is checked against this package's limits before the library reads the file.
The library reads by ``pread`` into its own memory, never through a memory map.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from evolving_attention.durable import json_bytes, write_files
from evolving_attention.errors import CheckpointError
from evolving_attention.interop.evolving_mark import EVOLVING
from evolving_attention.interop.json_file import parse_object
from evolving_attention.interop.limits import (
    MAX_HEADER_BYTES,
    MAX_SHARD_BYTES,
    MAX_TENSORS,
    check_shape,
    check_tensor_name,
)
from evolving_attention.interop.paths import InputFile, open_given, present

# Stems of weight file names: transformers', and the one of marked folders.
_STEMS = ("model", f"{EVOLVING}model")
_LENGTH_BYTES = 8  # the file begins with the size of its header, uint64
_ITEM_BYTES = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U64": 8,
    "U32": 4,
    "U16": 2,
    "U8": 1,
    "BOOL": 1,
}
_WRITABLE = frozenset(
    (
        "float64",
        "float32",
        "float16",
        "int64",
        "int32",
        "int16",
        "int8",
        "uint8",
        "bool",
    )
)


def load_safetensors(path: str | Path) -> dict[str, np.ndarray]:
    """Read a ``.safetensors`` file into arrays that own their memory.

    Args:
        path: the file; a link to one is followed.

    Returns:
        Name to array, sorted by name; bfloat16 has the element type of ``ml_dtypes``.

    Raises:
        CheckpointError: missing, truncated, damaged, or with unsupported types.
    """
    with open_given(Path(path)) as file:
        return read_safetensors(file)


def read_safetensors(file: InputFile) -> dict[str, np.ndarray]:
    """Like :func:`load_safetensors`, from an open file."""
    import safetensors

    header = _checked_header(file)
    result: dict[str, np.ndarray] = {}
    try:
        # Opening the descriptor's name opens exactly the file that was checked.
        with safetensors.safe_open(
            f"/dev/fd/{file.fd}", framework="np", backend="pread"
        ) as reader:
            for name in sorted(header):
                result[name] = reader.get_tensor(name)
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # a panic of the library is not an Exception
        raise _damaged(file, f"cannot be read ({error})") from error
    for name, array in result.items():
        if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
            raise _damaged(file, f"{name} has truth values other than 0 and 1")
    return result


def save_safetensors(
    folder: str | Path,
    tensors: Mapping[str, np.ndarray],
    *,
    stem: str = "model",
    metadata: Mapping[str, str] | None = None,
    max_shard_bytes: int = MAX_SHARD_BYTES,
    beside: Mapping[str, Any] | None = None,
) -> list[str]:
    """Write weights to a folder in Hugging Face's layout, with other files of a model.

    Writes one ``model.safetensors``, or, above ``max_shard_bytes``, files
    ``model-00001-of-0000N.safetensors`` and an index, which makes the shards valid.
    Weights of the other layout or stem, which readers might prefer, are removed.

    All files are written under temporary names before an old one is touched: if the
    disk is full, the folder stays as it was. Then they are renamed. If that is
    interrupted, the folder has the old model, the new one, or none that loads; of one
    weight file beside an unchanged config.json never none.

    Args:
        folder: existing folder.
        tensors: name to array; bfloat16 as ``ml_dtypes.bfloat16``.
        stem: prefix of the file names, ``model`` or ``evolving_model``
            (:mod:`.evolving_mark`).
        metadata: text for the header; default ``{"format": "pt"}``, which transformers
            requires.
        max_shard_bytes: maximum tensor bytes per file; a larger tensor has its own.
        beside: JSON files by name, written after the weights; None: without that file.
            The last one, config.json, is the one without which nobody reads the folder.

    Returns:
        The names of the files written.

    Raises:
        CheckpointError: safetensors lacks an element type, a name is invalid, or
            writing fails.
    """
    target = Path(folder)
    arrays = {
        check_tensor_name(name, str(target)): _writable(name, array)
        for name, array in tensors.items()
    }
    header = dict(metadata) if metadata is not None else {"format": "pt"}
    shards = _split(arrays, max_shard_bytes)
    given = dict(beside or {})
    more = {name: json_bytes(v) for name, v in given.items() if v is not None}
    names = [f"{stem}.safetensors"]
    if len(shards) > 1:
        count = len(shards)
        names = [
            f"{stem}-{n:05d}-of-{count:05d}.safetensors" for n in range(1, count + 1)
        ]
        parts = zip(names, shards, strict=True)
        weight_map = {name: file for file, shard in parts for name in shard}
        total = sum(array.nbytes for array in arrays.values())
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        more = {f"{stem}.safetensors.index.json": json_bytes(index), **more}

    def contents() -> Iterator[tuple[str, bytes]]:
        for name, shard in zip(names, shards, strict=True):
            yield name, _serialise(shard, header)
        yield from more.items()

    entries = {f"{s}.safetensors{end}" for s in _STEMS for end in ("", ".index.json")}
    obsolete = {*entries, *given}.difference(names, more)
    keeps = len(shards) == 1 and not any(present(target, name) for name in obsolete)
    if keeps and all(_holds(target / name, data) for name, data in more.items()):
        obsolete = set()  # one rename changes the model
    else:
        obsolete |= set(more)
    return write_files(target, contents(), remove=sorted(obsolete))


def _holds(path: Path, data: bytes) -> bool:
    """Whether a file has this content."""
    try:
        return path.read_bytes() == data
    except OSError:
        return False


def _checked_header(file: InputFile) -> dict[str, Any]:
    """Returns the header without metadata, checked against limits and file size."""
    if file.size < _LENGTH_BYTES:
        raise _damaged(file, f"has only {file.size} bytes")
    length = int.from_bytes(file.read_bytes(0, _LENGTH_BYTES), "little")
    if length > min(MAX_HEADER_BYTES, file.size - _LENGTH_BYTES):
        raise _damaged(file, f"claims a header of {length} bytes")
    header = parse_object(
        file.read_bytes(_LENGTH_BYTES, length), file.label, CheckpointError
    )
    header.pop("__metadata__", None)
    if len(header) > MAX_TENSORS:
        raise _damaged(file, f"has {len(header)} tensors, above {MAX_TENSORS}")
    data_bytes = file.size - _LENGTH_BYTES - length
    for key, entry in header.items():
        name = check_tensor_name(key, file.label)
        if not isinstance(entry, dict):
            raise _damaged(file, f"describes {name} by something other than an object")
        kind = entry.get("dtype")
        if not isinstance(kind, str) or kind not in _ITEM_BYTES:
            raise _damaged(
                file, f"{name} has the element type {kind!r:.40}, which is not read"
            )
        shape = check_shape(entry.get("shape"), name, file.label)
        if math.prod(shape) * _ITEM_BYTES[kind] > data_bytes:
            raise _damaged(file, f"{name} of shape {shape} is larger than the file")
    return header


def _writable(name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype != ml_dtypes.bfloat16 and array.dtype.name not in _WRITABLE:
        raise CheckpointError(
            f"{name} has the element type {array.dtype}, which safetensors has not; "
            f"expected bfloat16 or one of {', '.join(sorted(_WRITABLE))}"
        )
    return np.asarray(array, order="C")


def _split(
    arrays: Mapping[str, np.ndarray], max_shard_bytes: int
) -> list[dict[str, np.ndarray]]:
    shards: list[dict[str, np.ndarray]] = [{}]
    size = 0
    for name, array in arrays.items():
        if shards[-1] and size + array.nbytes > max_shard_bytes:
            shards.append({})
            size = 0
        shards[-1][name] = array
        size += array.nbytes
    return shards


def _serialise(arrays: dict[str, np.ndarray], metadata: dict[str, str]) -> bytes:
    from safetensors.numpy import save

    data: bytes = save(arrays, metadata=metadata)
    return data


def _damaged(file: InputFile, what: str) -> CheckpointError:
    return CheckpointError(
        f"{file.label}: {what}; it is truncated or damaged, get it again"
    )
