"""The training commands, as ``sweep`` calls them: options and results.

To add a command, add a line to :data:`COMMANDS`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from evolving_attention.cli.options import Fields

__all__ = ["COMMANDS", "Command", "Training", "training"]


class Command(NamedTuple):
    """Location of a command's code, and its defaults in a sweep.

    Attributes:
        module: its module in ``evolving_attention.cli``.
        fields: function that returns its options.
        results: function that runs it.
        loss: its loss on the validation set, which a sweep minimizes by default.
        settings: options that a sweep adds if they are not given.
    """

    module: str
    fields: str = "train_fields"
    results: str = "train_results"
    loss: str = "eval_loss"
    settings: Mapping[str, Any] = MappingProxyType({})


COMMANDS: dict[str, Command] = {
    "glue": Command(
        "glue", "fields", "results", settings={"do_train": True, "do_eval": True}
    ),
    "timeseries train": Command("timeseries", loss="validation_loss"),
    "translate train": Command("translate", loss="best_eval_loss"),
    "squad train": Command("squad", "fields"),
    "textnet train": Command("textnet"),
    "pretrain": Command("pretrain"),
    "image train": Command("images", loss="validation_loss"),
    "graph train": Command("graph", loss="validation_loss"),
}


class Training(NamedTuple):
    """Options and entry point of a training command.

    Attributes:
        fields: its options.
        results: runs the command with the given options, and returns its results.
    """

    fields: Fields
    results: Callable[[dict[str, Any]], dict[str, Any] | None]


def training(name: str) -> Training:
    """Imports and returns the command of this name."""
    command = COMMANDS[name]
    found = importlib.import_module(f"evolving_attention.cli.{command.module}")
    return Training(getattr(found, command.fields)(), getattr(found, command.results))
