"""Hashes the training data and the settings that decide its order.

With this fingerprint the Trainer refuses to resume with other data, another batch size,
seed, optimizer or schedule, which would continue a different run.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from evolving_attention.data.labels import numbered
from evolving_attention.data.packed import PackedDataset, digest, each
from evolving_attention.device_names import host_array
from evolving_attention.durable import plain
from evolving_attention.errors import CheckpointError
from evolving_attention.notices import say

KEYS = (
    "input_ids",
    "values",
    "offsets",
    "token_type_ids",
    "attention_mask",
    "labels",
    "start_positions",
    "end_positions",
    "label",
)

# Arguments that decide which rows share a step; others only change how they are used.
ORDER_ARGUMENTS = (
    "per_device_train_batch_size",
    "per_device_train_batch_tokens",
    "gradient_accumulation_steps",
    "train_sampling_strategy",
    "dataloader_drop_last",
    "seed",
    "data_seed",
)
# Arguments of optimizer, schedule and loss. Older checkpoints lack them.
UPDATE_ARGUMENTS = (
    "learning_rate",
    "lr_scheduler_type",
    "lr_scheduler_kwargs",
    "warmup_steps",
    "max_grad_norm",
    "optim",
    "optim_args",
    "weight_decay",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "label_smoothing_factor",
)
# Keys of a config.json that say what was saved and by whom. ``text_columns`` are names;
# the hash of the data has the texts.
_DESCRIPTIONS = {
    "_name_or_path",
    "architectures",
    "dtype",
    "text_columns",
    "torch_dtype",
    "transformers_version",
}
# Options whose files give the initial weights. Older checkpoints lack them.
_FILES = ("word_vectors", "model_name_or_path")
_BATCHES = "gradient_accumulation_steps"
_SHOWN = 4  # number of configuration differences named in an error
_LENDS = ("__array__", "__array_interface__", "__dlpack__")
_said: set[str] = set()  # notices already printed


def data_fingerprint(dataset: PackedDataset | Sequence[Any]) -> str:
    """Returns a hash of ids and labels of every row, with keys, types and lengths."""
    if isinstance(dataset, PackedDataset):
        return dataset.fingerprint()
    unread: set[str] = set()
    described = functools.partial(_described, unread)
    found = digest(len(dataset), (_counting(row, described) for row in each(dataset)))
    if unread:
        say(
            "values of the training rows that are compared by type alone when a run "
            f"resumes: {', '.join(sorted(unread))}; make them arrays, numbers or text",
            _said,
        )
    return found


def _parts(row: dict[str, Any]) -> dict[str, Any]:
    """Returns the hashed columns; ragged ones (multiple choice) text by text."""
    found: dict[str, Any] = {}
    for key in KEYS:
        value = row.get(key)
        if isinstance(value, (list, tuple)) and len({*map(np.size, value)}) > 1:
            found |= {f"{key}[{i}]": part for i, part in enumerate(value)}
        elif key in row:
            found[key] = value
    return found


def _counting(row: Any, described: Callable[[Any], Any]) -> dict[str, Any]:
    """Returns the hashed parts of a row; a mask of ones counts as no mask."""
    row = dict(row) if hasattr(row, "keys") else {"row": row}
    found = _parts(row)
    if not found.keys() & {"input_ids", "values"}:  # a collator makes them
        text = json.dumps(row, sort_keys=True, default=described)
        return {"row": np.frombuffer(text.encode(), np.uint8)}
    mask = found.get("attention_mask")
    if mask is not None and np.all(np.asarray(mask) == 1):
        del found["attention_mask"]
    return found


def _described(unread: set[str], value: Any) -> Any:
    """Returns a plain value for one that JSON lacks; an array as a hash.

    Of other objects it is the name of their type, which is added to ``unread``.
    """
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (bytes, bytearray)):
        value = np.frombuffer(value, np.uint8)
    elif not isinstance(value, np.ndarray) and any(hasattr(value, n) for n in _LENDS):
        with contextlib.suppress(Exception):  # a sparse tensor, a damaged picture, …
            value = host_array(value)
    if isinstance(value, np.ndarray):
        kind = value.dtype.kind
        if kind in "SU" or (kind == "O" and value.ndim):
            return value.tolist()
        if kind == "c":
            value = np.stack([value.real, value.imag])
        if value.dtype.kind in "iubf" or value.dtype.name == "bfloat16":
            return (
                digest(len(value), [{"array": value}]) if value.ndim else value.item()
            )
    name = type(value).__qualname__
    unread.add(name)
    return name


def run_fingerprint(
    args: Any, model: Any, dataset: Any, processes: int = 1
) -> dict[str, Any]:
    """Returns data, model configuration and batching of a run, each under its own key.

    A command may give its model ``initial_facts``, ``{"option": hash}``, which join.
    ``gradient_accumulation_steps`` is counted over all processes: the number of batches
    per step matters, not the number of processes that share them.
    """
    config: Any = getattr(model, "config", None)
    described = config.to_dict() if hasattr(config, "to_dict") else {}
    text = json.dumps(_decisive(described), sort_keys=True, default=str)
    return {
        "data": data_fingerprint(dataset),
        "model": json.loads(text),
        **{name: getattr(args, name) for name in ORDER_ARGUMENTS},
        _BATCHES: args.gradient_accumulation_steps * processes,
        **_update_settings(args),
        **getattr(model, "initial_facts", {}),
    }


def _decisive(config: dict[str, Any]) -> dict[str, Any]:
    """Returns a model's configuration without its descriptions."""
    return {name: config[name] for name in config if name not in _DESCRIPTIONS}


def _update_settings(args: Any) -> dict[str, Any]:
    """Returns the values of UPDATE_ARGUMENTS, each meaning in one spelling."""
    found = {name: plain(getattr(args, name)) for name in UPDATE_ARGUMENTS}
    found["warmup_steps"] = args.warmup_ratio or args.warmup_steps
    found["max_grad_norm"] = args.max_grad_norm or 0.0
    if found["optim"].startswith("adamw"):
        found["optim"] = "adamw"
    return found


def compare(saved: dict[str, Any], now: dict[str, Any], path: str, force: bool) -> None:
    """Rejects a resume with other data or settings.

    Raises:
        CheckpointError: a part differs and ``force`` is False; the message names it.
    """
    if isinstance(saved.get("model"), dict):  # older checkpoints have descriptions
        saved = {**saved, "model": _decisive(saved["model"])}
    saved = _named_as(saved, now)
    older = {*UPDATE_ARGUMENTS, *_FILES} - saved.keys()
    names = [name for name in now if name not in older]
    names += {"weights"} & saved.keys() - now.keys()
    changed = [name for name in names if saved.get(name) != now.get(name)]
    if not changed or force:
        return
    details = ", ".join(_difference(n, saved.get(n), now.get(n)) for n in changed)
    raise CheckpointError(
        f"{path}: cannot resume, the saved run used {details}; restore it, start "
        "afresh in another output_dir, or pass force_resume=True (--force_resume) if "
        "the change is meant"
    )


def _named_as(saved: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Adds this run's class names to the saved run if that had none."""
    before, after = saved.get("model"), now.get("model")
    if not isinstance(before, dict) or not isinstance(after, dict):
        return saved
    names = list((before.get("id2label") or {}).values())
    if not names or not numbered(names) or len(names) != len(after["id2label"]):
        return saved
    given = {name: after[name] for name in ("id2label", "label2id")}
    return {**saved, "model": {**before, **given}}


def _difference(name: str, saved: Any, now: Any) -> str:
    """Describes a changed part, as ``alpha 0.1, this one 0.2``."""
    if name == "data":
        return (
            "other training data (rows, tokens or labels; rows drawn at random need "
            "the global generator of NumPy, Python or PyTorch)"
        )
    if name in _FILES:
        return f"other --{name}"
    if name == "weights":
        return "other weights of rows or classes"
    if name != "model":
        where = " over all processes" if name == _BATCHES else ""
        return f"{name} {saved}{where}, this one {now}"
    if not isinstance(saved, dict):
        return "another model configuration"
    before, after = dict(_leaves(saved)), dict(_leaves(now))
    keys = [key for key in (before | after) if before.get(key) != after.get(key)]
    shown = [
        f"{key} {before.get(key, 'unset')}, this one {after.get(key, 'unset')}"
        for key in keys[:_SHOWN]
    ]
    more = len(keys) - len(shown)
    return "; ".join(shown) + (f"; and {more} more differences" if more else "")


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the leaf values of a nested configuration, under dotted names."""
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from _leaves(part, f"{name}.{key}" if name else str(key))
    elif name:
        yield name.removeprefix("attention."), value
