"""Search spaces of ``evolving-attention sweep``: the papers' and the user's own."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from evolving_attention.cli.attention_arguments import refuse
from evolving_attention.cli.options import Fields, Option
from evolving_attention.data.json_objects import read_one_object
from evolving_attention.errors import ConfigError, DataError, suggestion


@dataclass(frozen=True)
class Choice:
    """One of several values."""

    values: tuple[Any, ...]

    def to_dict(self) -> Any:
        """Returns the value as JSON stores it."""
        return list(self.values)


@dataclass(frozen=True)
class Range:
    """A number from ``low`` to ``high``; with ``log``, sampled by its logarithm."""

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def to_dict(self) -> Any:
        """Returns the value as JSON stores it."""
        return dict(vars(self))


Space = dict[str, "Choice | Range"]


@dataclass(frozen=True)
class PaperSpace:
    """A paper's grid.

    Attributes:
        command: the training command.
        grid: values of each option.
        settings: options that the paper fixed; the command line takes precedence.
        source: reference of the grid in the paper.
    """

    command: str
    grid: dict[str, tuple[Any, ...]]
    settings: dict[str, Any] = field(default_factory=dict)
    source: str = ""

    def space(self) -> Space:
        """Returns the grid as a space."""
        return {name: Choice(values) for name, values in self.grid.items()}


_TASK_GRID: dict[str, tuple[Any, ...]] = {
    "learning_rate": (1e-4, 1e-5, 2e-5),
    "per_device_train_batch_size": (8, 16),
    "num_train_epochs": (2.0, 3.0, 5.0),
}
_WEIGHTS = (0.1, 0.2, 0.4)
_ICML = "Wang et al., ICML 2021, appendix A.2"
_TENTHS = tuple(tenth / 10 for tenth in range(2, 10))
_TEXT_WEIGHTS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, *_TENTHS)
_SERIES_WEIGHTS = (0.1, 0.3, 0.5, 0.7, 0.9)

#: The papers' search spaces by name.
SPACES: dict[str, PaperSpace] = {
    "icml-glue": PaperSpace(
        "glue",
        {**_TASK_GRID, "alpha": _WEIGHTS, "beta": _WEIGHTS},
        {"attention": "evolving", "adam_epsilon": 1e-8},
        f"{_ICML}: 162 settings",
    ),
    "icml-glue-plain": PaperSpace(
        "glue",
        _TASK_GRID,
        {"adam_epsilon": 1e-8},
        f"{_ICML}, without α and β: the 18 settings of the plain model",
    ),
    "icml-translation": PaperSpace(
        "translate train",
        {"learning_rate": (1e-4, 5e-4, 1e-3), "dropout": (0.1, 0.2, 0.3)},
        {},
        "Wang et al., ICML 2021, section 4.3",
    ),
    "predictive-glue": PaperSpace(
        "glue",
        {**_TASK_GRID, "alpha": _WEIGHTS},
        {"attention": "predictive", "adam_epsilon": 1e-8},
        "Predictive Attention Transformer, appendix B.2: 54 settings",
    ),
    "predictive-text": PaperSpace(
        "textnet train",
        {"alpha": _TEXT_WEIGHTS},
        {"attention": "predictive"},
        "Predictive Attention Transformer, section 4.1.1: 14 settings",
    ),
    "predictive-text-layers": PaperSpace(
        "textnet train",
        {"predictive_layers": (0, 1, 2, 3)},
        {"attention": "predictive"},
        "Predictive Attention Transformer, Table 5: 4 settings",
    ),
    "realformer-glue": PaperSpace(
        "glue",
        {
            "learning_rate": (6e-6, 8e-6, 1e-5, 2e-5, 3e-5, 4e-5, 5e-5),
            "num_train_epochs": (2.0, 3.0, 4.0),
        },
        {"attention": "residual", "per_device_train_batch_size": 32},
        "He et al., RealFormer, section 4.1.2: 21 settings",
    ),
    "realformer-squad": PaperSpace(
        "squad train",
        {
            "learning_rate": (2e-5, 3e-5, 4e-5, 5e-5),
            "num_train_epochs": (2.0, 3.0, 4.0),
            "per_device_train_batch_size": (32, 48),
        },
        {"attention": "residual"},
        "He et al., RealFormer, section 4.1.2: 24 settings",
    ),
    "journal-series": PaperSpace(
        "timeseries train",
        {
            "hidden_size": (64, 128),
            "num_blocks": (2, 3, 4, 5),
            "attention_ratio": (0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875),
            "alpha": _SERIES_WEIGHTS,
            "beta": _SERIES_WEIGHTS,
        },
        {"attention": "evolving"},
        "convolution-enhanced evolving attention networks, section 4.1: 1,400 settings",
    ),
}

_RANGE = re.compile(r"([^,:]+?)\.\.([^,:]+?)(:log)?")


def read_space(
    name: str | None, search: Sequence[str], command: str, fields: Fields
) -> tuple[Space, dict[str, Any]]:
    """Returns the space of ``--space`` and ``--search``, and the options it fixes.

    Args:
        name: a paper's name, or a .json file: ``{"alpha": [0.1, 0.2], "learning_rate":
            {"low": 1e-5, "high": 1e-3, "log": true}}``.
        search: ``NAME=a,b,c``, ``NAME=low..high`` or ``NAME=low..high:log``; these
            replace entries of the same name.
        command: the training command.
        fields: its options.

    Raises:
        ConfigError: the space is for another command, or has an unknown option.
        DataError: the file cannot be read.
    """
    space: Space = {}
    settings: dict[str, Any] = {}
    if name is not None and name.endswith(".json"):
        space = _from_file(Path(name), fields)
    elif name is not None:
        paper = _of_paper(name, command)
        space, settings = paper.space(), dict(paper.settings)
    for text in search:
        option, space_of = _from_words(text, fields)
        space[option] = space_of
    if not space:
        raise ConfigError(
            "nothing to search: expected --space with a paper's name or a .json file, "
            "or --search learning_rate=1e-5,2e-5; choose one"
        )
    return space, {k: v for k, v in settings.items() if k not in space}


def size_of(space: Space) -> int | None:
    """Returns the number of settings of a grid; None if the space has a range."""
    if any(isinstance(one, Range) for one in space.values()):
        return None
    return math.prod(
        len(one.values) for one in space.values() if isinstance(one, Choice)
    )


def grid_of(space: Space) -> list[dict[str, Any]]:
    """Returns every setting of a space without ranges."""
    values = [one.values for one in space.values() if isinstance(one, Choice)]
    return [dict(zip(space, one, strict=True)) for one in itertools.product(*values)]


def _of_paper(name: str, command: str) -> PaperSpace:
    paper = SPACES.get(name)
    if paper is None:
        raise refuse(
            "space", name, f"one of {', '.join(SPACES)}, or a .json file", "choose one"
        )
    if paper.command != command:
        fitting = [n for n, one in SPACES.items() if one.command == command]
        raise refuse(
            "space",
            name,
            f"a space of {command}, this is of {paper.command}",
            f"choose {' or '.join(fitting)}, or describe one with --search",
        )
    return paper


def _from_words(text: str, fields: Fields) -> tuple[str, Choice | Range]:
    """Parses option and values of ``NAME=a,b`` or ``NAME=low..high:log``."""
    name, equals, values = text.partition("=")
    if not equals or not values:
        raise refuse(
            "search",
            text,
            "NAME=a,b,c or NAME=low..high",
            "for example learning_rate=1e-5..1e-4:log",
        )
    option = _option(name, fields, "--search")
    found = _RANGE.fullmatch(values)
    try:
        if found is None:
            return option.name, Choice(tuple(map(option.parse, values.split(","))))
        low, high, log = found.groups()
        return option.name, _range(option, option.parse(low), option.parse(high), log)
    except typer.BadParameter as error:
        raise ConfigError(
            f"--search {text}: {error.message}; correct the value"
        ) from None


def _from_file(file: Path, fields: Fields) -> Space:
    expected = 'an object of options and their values, such as {"alpha": [0.1, 0.2]}'
    found = read_one_object(file, expected)
    if not found:
        raise DataError(f"is empty, expected {expected}; write one", str(file))
    space: Space = {}
    for name, values in found.items():
        option = _option(name, fields, str(file))
        if isinstance(values, list) and values:
            chosen = tuple(option.value(value, str(file)) for value in values)
            space[option.name] = Choice(chosen)
        elif isinstance(values, Mapping) and {"low", "high"} <= values.keys():
            low, high = (
                option.value(values[end], str(file)) for end in ("low", "high")
            )
            space[option.name] = _range(option, low, high, values.get("log"))
        else:
            raise DataError(
                f"{name!r} is {json.dumps(values)}, expected a list of values, or "
                '{"low": 1e-5, "high": 1e-3, "log": true}; write one of the two',
                str(file),
            )
    return space


_NOT_SEARCHED = {"output_dir", "overwrite_output_dir", "seeds", "compare", "json"}


def _option(name: str, fields: Fields, where: str) -> Option:
    """Returns the command's option of this name."""
    key = name.strip().lstrip("-").replace("-", "_")
    option = fields.options.get(key)
    if option is None or key in _NOT_SEARCHED or option.hidden:
        hint = "see --help" if option else suggestion(key, fields.options, "see --help")
        raise ConfigError(
            f"{where}: {name!r}, expected an option of the command to search; {hint}"
        )
    return option


def _range(option: Option, low: Any, high: Any, log: Any) -> Range:
    """Returns a range of numbers.

    Raises:
        ConfigError: the ends are not ordered numbers, or a logarithm does not exist.
    """
    numbers = all(
        isinstance(end, (int, float)) and not isinstance(end, bool)
        for end in (low, high)
    )
    if not numbers or not low < high or (log and low <= 0):
        raise ConfigError(
            f"--search {option.name}={low}..{high}: expected two numbers, the lower "
            "one first, above 0 for :log; or a list of values, a,b,c"
        )
    whole = float not in option.kinds
    return Range(low, high, bool(log), whole)
