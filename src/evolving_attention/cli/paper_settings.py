"""Hyper-parameters that the papers chose for each task; search_spaces.py has the grids.

``FAMILIES`` is Table 9 of "Evolving Attention with Residual Convolutions" (Wang et al.,
ICML 2021), ``PREDICTIVE`` Table 7 of "Predictive Attention Transformer" (2020). Both
were found by grid search on each task's dev set. Adam's epsilon is 1e-8 and dropout 0.1
throughout. ``TRANSLATION`` is Table 10 of the former.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from evolving_attention.errors import ConfigError
from evolving_attention.interop.evolving_mark import base_type

ADAM_EPSILON, DROPOUT = 1e-8, 0.1


class PaperRow(NamedTuple):
    """One line of a table; predictive attention has no β."""

    epochs: int
    batch_size: int
    learning_rate: float
    alpha: float
    beta: float | None = None

    @property
    def attention(self) -> str:
        """The attention kind of the line."""
        return "predictive" if self.beta is None else "evolving"

    def training_arguments(self) -> dict[str, Any]:
        """Returns the line as fields of TrainingArguments."""
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

# same columns without beta; the paper has one table for its three models
_PREDICTIVE = """
        3  8 2e-5 0.2
        5  8 1e-5 0.1
        2  8 2e-5 0.2
        3  8 2e-5 0.4
        3 16 2e-5 0.2
        3 16 2e-5 0.4
        3 16 2e-5 0.4
        2  8 2e-5 0.2
        2  8 2e-5 0.2"""


def _row(line: str) -> PaperRow:
    epochs, batch_size, *rest = line.split()
    return PaperRow(int(epochs), int(batch_size), *map(float, rest))


def _rows(text: str) -> dict[str, PaperRow]:
    return dict(zip(_TASKS, map(_row, text.strip().split("\n")), strict=True))


FAMILIES: dict[str, dict[str, PaperRow]] = {
    family: _rows(text) for family, text in _TABLE.items()
}
"""``FAMILIES[family][task]`` is one line of the table."""

PREDICTIVE: dict[str, PaperRow] = _rows(_PREDICTIVE)
"""``PREDICTIVE[task]`` is one line of the predictive paper's table."""


_MT_OPTIONS = ("gradient_accumulation_steps", "learning_rate", "dropout")
TRANSLATION: dict[str, dict[str, Any]] = {
    direction: dict(zip(_MT_OPTIONS, row, strict=True))
    for direction, row in {
        "de-en": (1, 1e-3, 0.2),  # IWSLT'14
        "en-de": (16, 1e-3, 0.3),  # WMT'14, on 8 GPUs
        "en-fr": (16, 1e-3, 0.1),  # WMT'14, on 8 GPUs
    }.items()
}
"""``TRANSLATION[direction]``: options of translate train, for both sizes of the model.

α and β depend on the size alone; ``ea_transformer_lite`` and ``_base`` have them.
"""


def translation(direction: str, model: str) -> dict[str, Any]:
    """Returns the options of ``TRANSLATION`` for a model of that table.

    Raises:
        ConfigError: the table has no such direction, or no such model.
    """
    found = TRANSLATION.get(direction.lower())
    if found is None:
        raise ConfigError(
            f"--paper_settings {direction}: expected one of {', '.join(TRANSLATION)}; "
            "the paper's table has no other"
        )
    if not model.removeprefix("ea_").startswith("transformer_"):
        raise ConfigError(
            f"--paper_settings {direction} with --model {model}: expected "
            "ea_transformer_lite, ea_transformer_base, or the same without ea_; the "
            "paper's table has no other"
        )
    return dict(found)


def family_of(config: dict[str, Any]) -> str:
    """Returns the family of the table that fits a model's config.json best."""
    kind = base_type(config)
    large = int(config.get("num_hidden_layers", 12)) > 12
    if kind == "roberta":
        return "roberta-large"
    if kind == "t5":
        return "t5-base"
    return "bert-large" if large else "bert-base"


def lookup(family: str, task: str | None) -> PaperRow:
    """Returns one line of ``FAMILIES``, or of ``PREDICTIVE`` for "predictive".

    Raises:
        ConfigError: no table has this family, or the task is not one of GLUE's.
    """
    name = family.lower().replace("_", "-").removeprefix("ea-")
    tables = {**FAMILIES, "predictive": PREDICTIVE}
    if name not in tables:
        raise ConfigError(
            f"--paper_settings {family}: expected one of {', '.join(tables)}; the "
            "papers' tables have no other"
        )
    if task not in tables[name]:
        raise ConfigError(
            f"--paper_settings {family}: the table has no task {task!r}, expected "
            f"--task_name to be one of {', '.join(_TASKS)}"
        )
    return tables[name][task]
