"""Hashes of the files that a command reads: they tell other data from the same data."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evolving_attention.durable.files import digest
from evolving_attention.errors import CheckpointError

_WRITTEN = ("output_dir", "logging_dir", "cache_dir")  # not read, or only a copy
_PICTURES = ("train_dir", "test_dir")
_MODELS = (
    "model_dir",
    "model_name_or_path",
    "pretrained",
    "config",
    "config_name",
    "tokenizer_name",
)
_MODEL_FILES = (  # those of a model's folder that decide a result
    "config.json",
    "generation_config.json",
    "tokenizer*.json",
    "special_tokens_map.json",
    "vocab.*",
    "merges.txt",
    "spiece.model",
    "model*.safetensors",
    "evolving_model*.safetensors",
    "pytorch_model*.bin",
)


def content_hashes(given: dict[str, Any]) -> dict[str, list[str]]:
    """Returns hashes of the data and the local models that are given, by option.

    Files are hashed whole, since their times change with every copy. A data file or a
    folder of data has one hash, a model one for each of its files.

    Args:
        given: values of options by name; other options than paths are left out.
    """
    found = {}
    for name, value in given.items():
        paths = value if isinstance(value, (list, tuple)) else [value]
        if not all(isinstance(path, (str, Path)) and str(path) for path in paths):
            continue
        if name in _MODELS:
            hashes = [_of_model(str(path)) for path in paths]
        elif name.endswith(("_file", "_dir", "_vectors")) and name not in _WRITTEN:
            hashes = [_of_data(name, Path(path), given) for path in paths]
        else:
            continue
        if hashes and all(hashes):
            found[name] = [one for several in hashes for one in several]
    return found


def other_contents(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Returns the options whose hashes differ from the saved ones.

    Options without a saved hash are the same: earlier versions recorded fewer or none.
    """
    return [name for name in now if saved.get(name, now[name]) != now[name]]


def _of_data(name: str, path: Path, given: dict[str, Any]) -> list[str]:
    """Returns the hash of a file or a folder; [] if there is none."""
    if path.is_file():  # --train_dir may be an archive
        return [_digest(path)]
    files = _data_files(name, path, given) if path.is_dir() else []
    hasher = hashlib.blake2b(digest_size=32)
    for file in files:
        hasher.update(f"{_digest(file)} ".encode())
        hasher.update(os.fsencode(file.relative_to(path)) + b"\n")
    return [hasher.hexdigest()] if files else []


def _data_files(name: str, root: Path, given: dict[str, Any]) -> list[Path]:
    """Returns the files of a folder that the option's command reads, sorted."""
    from evolving_attention.data.image_files import pictures

    if name in _PICTURES:
        return pictures(root)
    if name == "data_dir":  # may hold other data sets, too
        wanted = _plain(given.get("task_name") or given.get("dataset"))
        places = [*root.glob("*"), *root.glob("timeseries/*")]
        own = [one for one in places if _plain(one.name) == wanted and one.is_dir()]
        inside = [file for folder in own or [root] for file in folder.iterdir()]
    else:  # as data.corpus reads it
        inside = [*root.rglob("*")]
    return sorted(
        file
        for file in inside
        if file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(root).parts)
    )


def _plain(name: Any) -> str:
    """Returns the name of a data set in one form: sst2 and SST-2 are the same."""
    return str(name).casefold().replace("-", "")


def _of_model(name: str) -> list[str]:
    """Returns hashes of the files of a local model or config; [] if there is none."""
    from evolving_attention.interop.resolve import resolve

    if Path(name).is_file():
        return [_digest(Path(name))]
    try:
        folder = resolve(name, local_files_only=True)
    except CheckpointError:  # on the Hub, or reported by the command
        return []
    files = {file for pattern in _MODEL_FILES for file in folder.glob(pattern)}
    return [_digest(file) for file in sorted(files) if file.is_file()]


def _digest(file: Path) -> str:
    try:
        return digest(file.resolve())[1]
    except OSError:  # reported by the command, or a picture that it leaves out
        return "unreadable"
