"""Averages the weights of checkpoints, as is usual for translation models."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention import durable
from evolving_attention.errors import CheckpointError, ConfigError
from evolving_attention.field_types import check_whole
from evolving_attention.interop.evolving_mark import weights_stem
from evolving_attention.interop.hf import load_folder
from evolving_attention.interop.paths import present
from evolving_attention.interop.safetensors_io import save_safetensors

_BESIDE = (  # copied, or removed
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("spiece.model", "vocab.txt", "vocab.json", "merges.txt"),
    "generation_config.json",
)


def last_checkpoints(folder: str | Path, count: int) -> list[Path]:
    """Returns the last ``count`` checkpoints, oldest first, each verified.

    Raises:
        ConfigError: ``count`` is not a number of at least 1.
        CheckpointError: there are fewer checkpoints, or one is damaged.
    """
    check_whole("last_checkpoints", count=count)
    if not Path(folder).is_dir():
        raise CheckpointError(
            f"{folder}: no such folder, expected the folder of a run; check the path"
        )
    found = durable.list_checkpoints(folder)[:count]
    if len(found) < count:
        raise CheckpointError(
            f"{folder}: has {len(found)} checkpoints, expected {count} to average; "
            "average fewer, or train with save_total_limit and save_steps that keep "
            "as many"
        )
    for path in found:
        durable.verify_directory(path)
    return found[::-1]


def average_checkpoints(
    folders: Sequence[str | Path], output_dir: str | Path
) -> dict[str, Any]:
    """Writes a model whose weights are the mean of several models' weights.

    Sums are in float64, in the given order. Config, tokenizer and integer tensors are
    those of the last folder.

    Args:
        folders: folders of models that differ only in their weights.
        output_dir: folder of the result; new, or without a model. Tokenizer files in
            it are replaced.

    Returns:
        The config.

    Raises:
        ConfigError: ``folders`` is empty, or ``output_dir`` holds a model.
        CheckpointError: a folder is unreadable, or two differ in more than weights.
    """
    paths, target = [Path(folder) for folder in folders], Path(output_dir)
    if not paths:
        raise ConfigError("average_checkpoints: no folders, expected at least one")
    if (target / "config.json").exists():
        raise ConfigError(
            f"{target}: holds a model already, expected a new folder for the average; "
            "choose another one, or remove it"
        )
    first = load_folder(paths[0])
    sums = {n: _widened(array) for n, array in first.tensors.items()}
    last = first
    for path in paths[1:]:
        last = load_folder(path)
        _check_same(first, last)
        for name, array in last.tensors.items():
            sums[name] = (sums[name] if _adds(array) else 0) + _widened(array)
    mean = {
        name: (sums[name] / len(paths) if _adds(array) else sums[name]).astype(
            array.dtype
        )
        for name, array in last.tensors.items()
    }
    durable.make_folder(target)
    for name in _BESIDE:
        if present(paths[-1], name):
            shutil.copyfile(paths[-1] / name, target / name)
        else:  # another model's would be loaded with this one
            (target / name).unlink(missing_ok=True)
    stem, beside = weights_stem(last.config), {"config.json": last.config}
    save_safetensors(target, mean, stem=stem, beside=beside)
    return last.config


def _adds(array: np.ndarray) -> bool:
    return array.dtype.kind not in "iub"


def _widened(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if _adds(array) else array


def _check_same(first: Any, other: Any) -> None:
    """Rejects folders with another config, or other tensor names or shapes."""
    keys = [*first.config, *(other.config.keys() - first.config.keys())]
    differing = [k for k in keys if first.config.get(k) != other.config.get(k)]
    if not differing:
        shapes = [{n: a.shape for n, a in f.tensors.items()} for f in (first, other)]
        names = sorted(shapes[0].keys() | shapes[1].keys())
        differing = [n for n in names if shapes[0].get(n) != shapes[1].get(n)]
    if differing:
        raise CheckpointError(
            f"{other.path}: differs from {first.path} in {', '.join(differing[:4])}, "
            "expected the same model with other weights; average checkpoints of one "
            "run"
        )
