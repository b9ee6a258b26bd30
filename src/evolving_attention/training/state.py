"""The state and the results of a run, as JSON-serialisable values."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import typing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from evolving_attention.durable.files import plain, reported
from evolving_attention.errors import CheckpointError, ConfigError
from evolving_attention.field_types import check_type, describe, members
from evolving_attention.interop.json_file import parse_object, read_object

STATE = "trainer_state.json"
_NOT_FINITE = ("nan", "inf", "-inf")  # as :func:`plain` writes them
MAX_BYTES = 256 << 20  # limit of that file; its log grows with the run


class TrainOutput(NamedTuple):
    """Result of ``Trainer.train``; ``training_loss`` is the mean over all steps."""

    global_step: int
    training_loss: float
    metrics: dict[str, float]


class PredictionOutput(NamedTuple):
    """Result of ``Trainer.predict``; ``label_ids`` is None without labels."""

    predictions: np.ndarray
    label_ids: np.ndarray | None
    metrics: dict[str, float]


def read_values(folder: pathlib.Path) -> dict[str, Any]:
    """Reads ``trainer_state.json`` of a checkpoint; links are not followed.

    Raises:
        CheckpointError: it is missing, a link, too large or damaged.
    """
    return read_object(folder, STATE, MAX_BYTES)


def _value(hint: Any, value: Any, name: str, source: str) -> Any:
    """Returns the checked value of a field; NaN and infinity were saved as text."""
    if float in members(hint) and value in _NOT_FINITE:
        return float(value)
    try:
        value = check_type(hint, value, source, name)
    except ConfigError:
        kinds = describe(hint)
    else:
        if type(value) is not int or value >= 0 or float in members(hint):
            return value
        kinds = "a number >= 0"
    raise CheckpointError(
        f"{source}: {name} is {value!r:.80}, expected {kinds}; choose another "
        "checkpoint"
    )


@dataclass
class TrainerState:
    """The position of a run; saved in every checkpoint as ``trainer_state.json``.

    The first block has Hugging Face's names and meaning. The second block is needed for
    an exact resume: the position in the data (``epoch_index``, used batches of that
    epoch, whether its end was handled), the sums of the logged losses, pending requests
    of callbacks, the number of splits of a batch, and the choice of
    ``precision="auto"``.
    """

    epoch: float = 0.0
    global_step: int = 0
    max_steps: int = 0
    num_train_epochs: int = 0
    logging_steps: int = 500
    eval_steps: int = 500
    save_steps: int = 500
    train_batch_size: int | None = None
    num_input_tokens_seen: int = 0
    log_history: list[dict[str, Any]] = field(default_factory=list)
    best_metric: float | None = None
    best_global_step: int | None = None
    best_model_checkpoint: str | None = None
    is_local_process_zero: bool = True
    is_world_process_zero: bool = True
    stateful_callbacks: dict[str, Any] = field(default_factory=dict)

    epoch_index: int = 0
    batches_done: int = 0
    epoch_is_cut: bool = False
    epoch_ended: bool = False
    total_loss: float = 0.0
    loss_steps: int = 0
    loss_since_log: float = 0.0
    steps_since_log: int = 0
    last_step: dict[str, float] = field(default_factory=dict)
    skipped_steps: int = 0
    skipped_in_a_row: int = 0
    batch_splits: int = 1
    pending: dict[str, bool] = field(default_factory=dict)
    precision: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns all fields as plain values."""
        values: dict[str, Any] = plain(dataclasses.asdict(self))
        return values

    def save_to_json(self, path: str | pathlib.Path) -> None:
        """Writes all fields as JSON to ``path``."""
        text = json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"
        pathlib.Path(path).write_text(text, encoding="utf-8")

    @classmethod
    def from_dict(cls, values: dict[str, Any], source: str = "state") -> TrainerState:
        """Builds a state from the result of :meth:`to_dict`.

        Raises:
            CheckpointError: a name is unknown, or a value has another type than its
                field, or is negative; ``source`` names the file.
        """
        known = {f.name for f in dataclasses.fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown or "global_step" not in values:
            what = f"unknown fields {unknown}" if unknown else "no global_step"
            raise CheckpointError(
                f"{source}: {what}, expected the state of a Trainer of this package; "
                "choose a checkpoint-N folder that this package wrote"
            )
        hints = typing.get_type_hints(cls)
        checked = {n: _value(hints[n], v, n, source) for n, v in values.items()}
        return cls(**checked)

    @classmethod
    def load_from_json(cls, path: str | pathlib.Path) -> TrainerState:
        """Reads a file that :meth:`save_to_json` wrote, or that of a checkpoint.

        Raises:
            CheckpointError: the file is missing or damaged.
        """
        with reported(f"cannot read {path}", "the state is not loaded"):
            data = pathlib.Path(path).read_bytes()
        values = parse_object(data, str(path), CheckpointError)
        values.pop("resume", None)  # facts of a checkpoint that the Trainer reads
        return cls.from_dict(values, source=str(path))


@dataclass
class TrainerControl:
    """Switches by which callbacks control the loop, as in Hugging Face's Trainer."""

    should_training_stop: bool = False
    should_epoch_stop: bool = False
    should_save: bool = False
    should_evaluate: bool = False
    should_log: bool = False
