"""Result files and tables of a run: ``train_results.json``, ``all_results.json``, …"""

from __future__ import annotations

import json
import pathlib
from typing import Any

from evolving_attention import durable
from evolving_attention.notices import note
from evolving_attention.progress_bar import duration

# Files of the usual splits.
FILES = tuple(f"{s}_results.json" for s in ("all", "train", "eval", "test", "predict"))


def metrics_table(split: str, metrics: dict[str, Any]) -> str:
    """Formats metrics as aligned text, sorted by name; times as h:mm:ss."""
    shown = {}
    for name in sorted(metrics):
        value = metrics[name]
        if name.endswith("_runtime"):
            value = duration(value)
        elif isinstance(value, float):
            value = f"{value:.4f}"
        shown[name] = str(value)
    left = max(map(len, shown), default=0)
    right = max(map(len, shown.values()), default=0)
    lines = [f"  {name:<{left}} = {text:>{right}}" for name, text in shown.items()]
    return "\n".join([f"***** {split} metrics *****", *lines])


def print_metrics(split: str, metrics: dict[str, Any]) -> None:
    """Shows the table on stderr."""
    note(metrics_table(split, metrics))


def save_metrics(
    output_dir: str, split: str, metrics: dict[str, Any], combined: bool = True
) -> None:
    """Writes ``<split>_results.json`` and adds the metrics to ``all_results.json``."""
    folder = pathlib.Path(output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    durable.write_json(folder / f"{split}_results.json", durable.plain(metrics))
    if not combined:
        return
    path = folder / "all_results.json"
    together = json.loads(path.read_text("utf-8")) if path.exists() else {}
    together.update(durable.plain(metrics))
    durable.write_json(path, together)
