"""Hyper-parameters of "Evolving Attention with Residual Convolutions", Table 9.

Wang et al., ICML 2021, appendix A.2: found by grid search on each task's dev set.
Adam's epsilon is 1e-8 and dropout 0.1 throughout.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from evolving_attention.errors import ConfigError
from evolving_attention.interop.evolving_mark import base_type

__all__ = ["FAMILIES", "PaperRow", "family_of", "lookup"]

ADAM_EPSILON, DROPOUT = 1e-8, 0.1


class PaperRow(NamedTuple):
    """One line of the table."""

    epochs: int
    batch_size: int
    learning_rate: float
    alpha: float
    beta: float

    def training_arguments(self) -> dict[str, Any]:
        """The line as fields of TrainingArguments."""
        return {
            "num_train_epochs": float(self.epochs),
            "per_device_train_batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
            "adam_epsilon": ADAM_EPSILON,
        }


_TASKS = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")

# epochs, batch size, learning rate, alpha, beta; one line per task in the order above
_TABLE: dict[str, str] = {
    "bert-base": """
        3  8 2e-5 0.2 0.1
        5  8 1e-5 0.1 0.1
        2  8 2e-5 0.1 0.2
        3  8 2e-5 0.2 0.2
        3 16 2e-5 0.1 0.2
        3 16 2e-5 0.1 0.2
        3 16 2e-5 0.1 0.1
        2  8 2e-5 0.2 0.1
        2  8 2e-5 0.2 0.2""",
    "bert-large": """
        3  8 2e-5 0.1 0.2
        5  8 1e-5 0.1 0.2
        2  8 1e-5 0.1 0.1
        3  8 2e-5 0.1 0.2
        3 16 1e-5 0.1 0.1
        3 16 2e-5 0.2 0.2
        3 16 2e-5 0.2 0.2
        3 16 1e-4 0.1 0.2
        2  8 2e-5 0.2 0.2""",
    "roberta-large": """
        3  8 2e-5 0.2 0.1
        5  8 1e-5 0.1 0.2
        3 16 1e-5 0.1 0.2
        3 16 2e-5 0.4 0.2
        3 16 2e-5 0.1 0.1
        5 16 1e-5 0.4 0.1
        5 16 1e-5 0.4 0.2
        2  8 1e-4 0.2 0.4
        2  8 2e-5 0.2 0.1""",
    "t5-base": """
        3  8 2e-5 0.2 0.2
        3  8 2e-5 0.1 0.2
        3  8 1e-4 0.1 0.1
        3 16 2e-5 0.1 0.1
        3 16 2e-5 0.1 0.2
        5 16 1e-5 0.1 0.1
        5 16 1e-5 0.2 0.1
        3 16 1e-5 0.4 0.2
        2  8 2e-5 0.2 0.2""",
}


def _row(line: str) -> PaperRow:
    epochs, batch_size, *rest = line.split()
    return PaperRow(int(epochs), int(batch_size), *map(float, rest))


FAMILIES: dict[str, dict[str, PaperRow]] = {
    family: dict(zip(_TASKS, map(_row, text.strip().split("\n")), strict=True))
    for family, text in _TABLE.items()
}
"""``FAMILIES[family][task]`` is one line of the table."""


def family_of(config: dict[str, Any]) -> str:
    """The family of the table that fits a model's config.json best."""
    kind = base_type(config)
    large = int(config.get("num_hidden_layers", 12)) > 12
    if kind == "roberta":
        return "roberta-large"
    if kind == "t5":
        return "t5-base"
    return "bert-large" if large else "bert-base"


def lookup(family: str, task: str | None) -> PaperRow:
    """One line of the table.

    Raises:
        ConfigError: the table has no such family, or the task is none of GLUE's.
    """
    name = family.lower().replace("_", "-").removeprefix("ea-")
    if name not in FAMILIES:
        raise ConfigError(
            f"--paper_settings {family}: expected one of {', '.join(FAMILIES)}; the "
            "paper's Table 9 has no other"
        )
    if task not in FAMILIES[name]:
        raise ConfigError(
            f"--paper_settings {family}: Table 9 has no task {task!r}, expected "
            f"--task_name to be one of {', '.join(_TASKS)}"
        )
    return FAMILIES[name][task]
