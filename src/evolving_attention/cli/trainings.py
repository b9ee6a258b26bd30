"""The training commands, as ``sweep`` calls them: options and results.

To add a command, add a line to :data:`COMMANDS`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from evolving_attention.cli.commands import Command


class Training(NamedTuple):
    """Location of a training command, and its defaults in a sweep.

    Attributes:
        module: the module in ``evolving_attention.cli`` that has it as ``TRAIN``.
        loss: its loss on the validation set, which a sweep minimizes by default.
        settings: options that a sweep adds if they are not given.
    """

    module: str
    loss: str = "eval_loss"
    settings: Mapping[str, Any] = MappingProxyType({})


COMMANDS: dict[str, Training] = {
    "glue": Training("glue", settings={"do_train": True, "do_eval": True}),
    "timeseries train": Training("timeseries", loss="validation_loss"),
    "translate train": Training("translate", loss="best_eval_loss"),
    "squad train": Training("squad"),
    "textnet train": Training("textnet"),
    "pretrain": Training("pretrain"),
    "image train": Training("images", loss="validation_loss"),
    "graph train": Training("graph", loss="validation_loss"),
}


def training(name: str) -> Command:
    """Imports and returns the command of this name."""
    module = f"evolving_attention.cli.{COMMANDS[name].module}"
    found: Command = importlib.import_module(module).TRAIN
    return found
