"""Options of ``evolving-attention sweep``; they precede the command to search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evolving_attention.cli.attention_arguments import option, refuse_below
from evolving_attention.cli.search_spaces import SPACES
from evolving_attention.errors import ConfigError
from evolving_attention.field_types import PathText, check_fields


@dataclass
class SweepArguments:
    """The search space, the objective, and the resources of the search."""

    output_dir: PathText | None = option(None, "Folder for the trials and the study.")
    space: str | None = option(
        None, f"A paper's search space: {', '.join(SPACES)}; or a .json file of one."
    )
    search: str | list[str] | None = option(
        None,
        "Options to search: NAME=a,b,c for some values, NAME=low..high for a range, "
        "NAME=low..high:log for a log-uniform range.",
    )
    n_trials: int | None = option(
        None, "Trials in all; default: every setting of a grid, else 20."
    )
    sampler: Literal["grid", "random", "tpe"] | None = option(
        None, "grid, random or tpe; default: grid if all options list their values."
    )
    objective: str | None = option(
        None, "The score to optimize, as the command names it; default: its loss."
    )
    direction: Literal["minimize", "maximize"] | None = option(
        None,
        "minimize or maximize; default: minimize losses, perplexities and errors (mse, "
        "mae, wer, …), as --greater_is_better does, and maximize others and neg_….",
    )
    workers: int = option(1, "Trials at a time on this machine, or in all of Ray.")
    ray: str | None = option(
        None,
        "Run the trials as tasks of Ray: local (of this machine), auto (the cluster "
        "that runs here, or that RAY_ADDRESS names) or HOST:PORT.",
    )
    num_threads: int | None = option(
        None, "Threads, divided among the workers; default: all."
    )
    retries: int = option(1, "Retries of a trial whose process died.")
    keep: Literal["best", "all"] = option(
        "best", "Weights to keep: those of the best trial, or of all."
    )
    storage: str | None = option(
        None,
        "optuna's storage, for sweeps on several machines: "
        "postgresql://…; default: study.db in --output_dir.",
    )
    study_name: str = option("sweep", "The study's name in the storage.")
    seed: int = option(0, "Seed of the sampler and of the order of a grid.")
    json: bool = option(False, "Print the results as JSON on stdout.")

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.output_dir:
            raise ConfigError(
                "--output_dir is missing: expected a folder for the trials and the "
                "study; add --output_dir out/sweep before the command"
            )
        refuse_below(1, self, "n_trials", "workers", fix="leave it out")
        refuse_below(0, self, "retries", fix="leave it out")

    @property
    def searched(self) -> list[str]:
        """The words of ``--search``."""
        if self.search is None:
            return []
        return self.search if isinstance(self.search, list) else [self.search]
