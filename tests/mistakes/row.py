"""One mistake: a call, its error type, and patterns of the message."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import evolving_attention as ea

SIZES = {
    "vocab_size": 40,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 36,
    "max_position_embeddings": 40,
}
IDS = np.ones((2, 5), np.int64)


class Row(NamedTuple):
    """``call(tmp_path)`` must raise ``error`` with all three patterns in its message.

    ``what`` is wrong, ``where`` (argument, file or row), and the expected value or the
    fix (``remedy``).
    """

    call: Callable[[Path], Any]
    error: type[BaseException]
    what: str
    where: str
    remedy: str


def config(**options: Any) -> ea.BertConfig:
    """A tiny BERT's config."""
    return ea.BertConfig(**{**SIZES, **options})


def model(name: str = "BertForSequenceClassification", **options: Any) -> Any:
    """A tiny random model of the class ``name``."""
    return getattr(ea, name)(config(**options))


def saved(folder: Path, **options: Any) -> Path:
    """Saves a tiny model and returns its folder."""
    model(**options).save_pretrained(folder / "saved")
    return folder / "saved"


def changed(folder: Path, **values: Any) -> Path:
    """Saves a tiny model with other values in its config.json."""
    root = saved(folder)
    file = root / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))
    return root


def with_tensor(folder: Path, name: str, value: np.ndarray | None) -> Path:
    """Saves a tiny model with one tensor replaced, or removed (None)."""
    from safetensors.numpy import load_file, save_file

    root = saved(folder)
    tensors = load_file(root / "model.safetensors")
    assert name in tensors
    if value is None:
        del tensors[name]
    else:
        tensors[name] = value
    save_file(tensors, root / "model.safetensors")
    return root
