"""The commands that train, as ``sweep`` calls them: options and results."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

from evolving_attention.cli.options import Fields

__all__ = ["COMMANDS", "Training", "training"]

# Command: its module, the function of its options, and that of its results.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "glue": ("glue", "fields", "results"),
    "timeseries train": ("timeseries", "train_fields", "train_results"),
    "translate train": ("translate", "train_fields", "train_results"),
    "squad train": ("squad", "fields", "train_results"),
    "textnet train": ("textnet", "train_fields", "train_results"),
}


class Training(NamedTuple):
    """A command that trains.

    Attributes:
        fields: its options.
        results: runs it with the given options, and returns its results.
    """

    fields: Fields
    results: Callable[[dict[str, Any]], dict[str, Any] | None]


def training(name: str) -> Training:
    """The command of this name, imported now."""
    module, fields, results = COMMANDS[name]
    found = importlib.import_module(f"evolving_attention.cli.{module}")
    return Training(getattr(found, fields)(), getattr(found, results))
