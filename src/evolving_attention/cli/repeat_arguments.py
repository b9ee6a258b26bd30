"""Options of training commands that run once per seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evolving_attention.cli.attention_arguments import option, refuse
from evolving_attention.field_types import PathText, check_fields

COMPARE = (
    "Output folder of an earlier --seeds run: adds the difference of each seed (this "
    "run - that run), and the mean with its 95 % interval."
)


@dataclass
class RepeatArguments:
    """The seeds, and the runs to compare with."""

    seeds: int | str | list[int | str] | None = option(
        None,
        "One run each, in --output_dir/seed-N, and a table of all: --seeds 0 1 2. The "
        "same command continues after an interruption; default: one run with --seed.",
    )
    compare: PathText | None = option(None, COMPARE)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.seeds is not None:
            self.seeds = [*seed_numbers(self.seeds)]
        elif self.compare is not None:
            raise refuse(
                "compare",
                self.compare,
                "--seeds with it",
                "add the seeds of that folder, for example --seeds 0 1 2",
            )


def seed_numbers(given: Any) -> list[int]:
    """Returns the numbers listed in ``--seeds``.

    Raises:
        ConfigError: an item is not a whole number from 0, or occurs twice.
    """
    values = given if isinstance(given, list) else [given]
    shown = " ".join(map(str, values))
    try:
        seeds = [int(value) for value in values]
    except (TypeError, ValueError):
        raise refuse("seeds", shown, "whole numbers", "for example 1 2 3") from None
    if not seeds:
        raise refuse("seeds", shown, "at least one", "for example 1 2 3")
    if min(seeds) < 0:
        raise refuse("seeds", shown, "whole numbers from 0", "for example 1 2 3")
    if len(set(seeds)) < len(seeds):
        raise refuse(
            "seeds", shown, "each number once", "equal seeds give equal results"
        )
    return seeds
