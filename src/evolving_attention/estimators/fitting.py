"""Training in memory: a Trainer without files that keeps the best epoch's weights."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention.errors import Interrupted, NonFiniteError
from evolving_attention.estimators import headroom
from evolving_attention.estimators.headroom import Rows
from evolving_attention.estimators.randomness import turn
from evolving_attention.estimators.weights import WeightedModel, WeightedRows
from evolving_attention.optim import create
from evolving_attention.random_state import kept_random_state
from evolving_attention.training import (
    EvalPrediction,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    runtime,
)
from evolving_attention.training.evaluate import evaluation_loop
from evolving_attention.training.loaders import Loaders
from evolving_attention.training.logging import ConsoleCallback
from evolving_attention.training.progress import progress_callback
from evolving_attention.training.reporting import Reporter
from evolving_attention.training.saving import NoSaver

#: Default options of the optimizers; RAdam's options and the gradient-norm limit are
#: those of the paper and of its published code.
USUAL: dict[str, dict[str, Any]] = {
    "radam": {"betas": (0.9, 0.99)},
    "sgd": {"momentum": 0.9, "nesterov": True},
}
MAX_GRAD_NORM = 4.0
_MAP_CELLS = 1 << 23  # attention map cells of one layer in an evaluation batch
_ROWS = 256


def nowhere() -> Path:
    """Returns an output folder for trainings that write nothing; it does not exist."""
    return Path(tempfile.gettempdir()) / "evolving-attention-writes-nothing"


@dataclass(frozen=True)
class FitSettings:
    """How a model is trained; the estimators' documentation explains the fields."""

    n_epochs: int
    batch_size: int
    learning_rate: float
    lr_schedule: str
    weight_decay: float
    patience: int | None
    seed: int
    device: str
    verbose: bool
    optimizer: str = "radam"
    optimizer_options: dict[str, Any] | None = None
    lr_schedule_options: dict[str, Any] | None = None
    label_smoothing: float = 0.0

    @classmethod
    def of(cls, estimator: Any, seed: int) -> FitSettings:
        """Returns the settings of an estimator, whose options have the same names."""
        names = [one.name for one in fields(cls) if one.name not in ("seed", "verbose")]
        options = {n: getattr(estimator, n) for n in names if hasattr(estimator, n)}
        return cls(**options, seed=seed, verbose=bool(estimator.verbose))

    def make_optimizer(self, model: Any) -> Any:
        """Creates the optimizer; options that are not given get its usual values."""
        options = self.optimizer_options
        return create(
            self.optimizer,
            model.named_parameters(),
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            options=USUAL.get(self.optimizer, {}) if options is None else options,
        )


@dataclass
class FitResult:
    """The result of training.

    Attributes:
        history: one dict per epoch: ``epoch``, ``loss``, ``learning_rate``, and with a
            validation set ``validation_loss`` and, for classifiers,
            ``validation_accuracy``.
        best_epoch: the epoch whose weights are kept, counted from 1; 0: the weights
            from before a fit that continues an earlier one.
        seconds: time of training.
        interrupted: name of the signal that ended training, or None.
    """

    history: list[dict[str, float]] = field(default_factory=list)
    best_epoch: int = 0
    seconds: float = 0.0
    interrupted: str | None = None


def train(
    model: Any,
    rows: Rows,
    validation: Rows | None,
    settings: FitSettings,
    *,
    continues: bool = False,
    stacklevel: int = 7,
) -> FitResult:
    """Train ``model`` in place; with a validation set, keep the best epoch's weights.

    The best epoch has the highest validation accuracy (for classifiers); ties are
    decided by the lowest validation loss. Without a validation set the best epoch is
    the last one. A signal ends training with the best epoch so far; the caller passes
    the result to :func:`tell` once the estimator holds the model. Rows may be weighted.

    With ``continues`` the present weights of the model count as epoch 0: they stay if
    no epoch is better, if a signal comes before the first epoch ends, or if training
    fails.

    When memory is short, layers are recomputed in the backward pass; a warning says so,
    by default at the line that calls ``fit``.

    Raises:
        OutOfMemory: the longest batch does not fit in memory.
        NonFiniteError: the loss or a gradient became NaN or infinite.
        Interrupted: a signal came before the first epoch had ended.
        KeyboardInterrupt: a second signal came.
    """
    recomputed = headroom.needs_recomputation(
        model, rows, settings.batch_size, settings.device, stacklevel
    )
    best = _KeepBest(model, settings.patience, validation is None, continues)
    weighted = isinstance(rows, WeightedRows)
    weights = validation.weights if isinstance(validation, WeightedRows) else None
    trainer = _MemoryTrainer(
        WeightedModel(model) if weighted else model,
        _arguments(model, rows, validation, settings, continues),
        train_dataset=rows,
        eval_dataset=validation,
        compute_metrics=_accuracy(weights) if _is_classifier(rows) else None,
        callbacks=[best],
        optimizers=(settings.make_optimizer(model), None),
    )
    began, interrupted = time.monotonic(), None
    if recomputed:
        model.gradient_checkpointing_enable()
    try:
        trainer.train()
    except Interrupted as error:
        if not best.weights:
            raise
        interrupted = signal.Signals(error.signal_number).name
    except BaseException as error:
        if continues:  # the earlier fit stays unchanged
            best.restore()
            model.eval()
        if isinstance(error, NonFiniteError):  # the Trainer's message mentions files
            found = error.report
            first = ""
            if "tensor" in found:
                first = f" (first: {found['kind']} {found['tensor']})"
            raise NonFiniteError(
                f"fit: in step {found.get('step')} the loss or a gradient is NaN or "
                f"infinite{first}, expected finite numbers; nothing of this fit is "
                "kept. Lower learning_rate, or look for extreme values in X and y",
                found,
            ) from error
        raise
    finally:
        if recomputed:
            model.gradient_checkpointing_disable()
    seconds = time.monotonic() - began
    best.restore()
    model.eval()
    history = _history(trainer.state.log_history)
    return FitResult(history, best.epoch, seconds, interrupted)


def tell(
    result: FitResult, n_epochs: int, stacklevel: int = 7, continues: bool = True
) -> None:
    """Reports an interrupted training once the estimator holds the model.

    By default the warning points to the line that calls ``fit``. ``continues``: the
    estimator has ``warm_start``.

    Ctrl-C (SIGINT) requests only the end of training, so it gives a warning. Other
    signals request the end of the process.

    Raises:
        Interrupted: for a signal other than SIGINT.
    """
    if result.interrupted is None:
        return
    kept = f"of epoch {result.best_epoch}, the best so far,"
    if not result.best_epoch:
        kept = "before this fit, still the best,"
    message = (
        f"{result.interrupted} after {len(result.history)} of {n_epochs} epochs: the "
        f"weights {kept} are kept; "
    )
    if continues:
        message += "fit again for the other epochs, with warm_start=True to go on from "
        message += "these weights"
    else:
        message += "training cannot go on from them: another one starts from scratch"
    if result.interrupted != "SIGINT":
        raise Interrupted(message, signal.Signals[result.interrupted])
    warnings.warn(message, stacklevel=stacklevel)


def outputs(model: Any, rows: Rows, device: str) -> np.ndarray[Any, Any]:
    """Returns the model's logits for every series, in order: float32 [N, …].

    Moves the model to the device first.

    Raises:
        ConfigError, BackendUnavailable: the device does not exist.
    """
    runtime.place_model(model, device)
    arguments = TrainingArguments(
        per_device_eval_batch_size=evaluation_batch(model, int(rows.lengths.max()))
    )
    found = evaluation_loop(model, Loaders(arguments).evaluation(rows, None))
    return np.asarray(found.predictions)


@contextlib.contextmanager
def kept_randomness() -> Iterator[None]:
    """Restores all global random generators after the block.

    Other threads wait for its end, so a fit has the same bits in a thread.
    """
    with turn(), kept_random_state():
        yield


def _is_classifier(rows: Rows) -> bool:
    return rows.labels is not None and rows.labels.dtype.kind == "i"


def evaluation_batch(model: Any, longest: int) -> int:
    """Returns a batch size for which the maps of a layer stay small."""
    heads = max(1, int(getattr(model.config, "num_attention_heads", 1)))
    return max(1, min(_ROWS, _MAP_CELLS // (heads * longest * longest)))


def _arguments(
    model: Any,
    rows: Rows,
    validation: Rows | None,
    settings: FitSettings,
    continues: bool,
) -> TrainingArguments:
    longest = int(rows.lengths.max())
    # A last batch of one series with one step would give batch norm no variance.
    alone = len(rows) > settings.batch_size and len(rows) % settings.batch_size == 1
    return TrainingArguments(
        str(nowhere()),
        num_train_epochs=settings.n_epochs,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=evaluation_batch(model, longest),
        dataloader_drop_last=bool(alone and rows.lengths.min() == 1),
        train_sampling_strategy="random",
        lr_scheduler_type=settings.lr_schedule,
        lr_scheduler_kwargs=settings.lr_schedule_options,
        label_smoothing_factor=settings.label_smoothing,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        max_grad_norm=MAX_GRAD_NORM,
        eval_strategy="no" if validation is None else "epoch",
        eval_on_start=continues and validation is not None,
        prediction_loss_only=rows.labels is None,
        logging_strategy="epoch",
        save_strategy="no",
        disable_tqdm=not settings.verbose,
        seed=settings.seed,
        device=settings.device,
    )


class _Reporter(Reporter):
    """Shows progress if requested, and writes no files."""

    def displays(self) -> list[Any]:
        if self.args.disable_tqdm:
            return []
        return [progress_callback(False) or ConsoleCallback()]

    def write_nonfinite(self, report: dict[str, Any]) -> None:
        """Writes nothing; the error carries the report."""


class _Saver(NoSaver):
    """Saves nothing, not even on a signal."""

    told = ", before the first epoch had ended: the model is not fitted; fit again"


class _MemoryTrainer(Trainer):
    """The Trainer without its files: no log, no report, no checkpoint on a signal."""

    _reporter_class, _saver_class = _Reporter, _Saver


class _KeepBest(TrainerCallback):
    """Keeps the weights of the best epoch; stops after ``patience`` worse ones.

    Args:
        model: the trained model.
        patience: epochs in a row without improvement before stopping; None: never.
        is_last: keep the last epoch, because there is no validation set.
        continues: keep the model's present weights as epoch 0.
    """

    def __init__(
        self, model: Any, patience: int | None, is_last: bool, continues: bool
    ) -> None:
        self.model, self.patience, self.is_last = model, patience, is_last
        self.best: tuple[float, float] | None = None
        self.epoch, self.waited = 0, 0
        self.weights: dict[str, np.ndarray[Any, Any]] = {}
        if continues:
            self._copy_weights()

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Compares this epoch with the best one so far."""
        metrics = kwargs["metrics"]
        # rounded so that rows of almost no weight do not override the loss
        found = (round(metrics.get("eval_accuracy", 0.0), 6), -metrics["eval_loss"])
        if self.best is None or found > self.best:
            self.best, self.waited = found, 0
            self._keep(state)
        else:
            self.waited += 1
        if self.patience is not None and self.waited >= self.patience:
            control.should_training_stop = True

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Shows the epoch's loss, which is logged at the end of the epoch."""
        if self.is_last and "loss" in kwargs["logs"]:
            self._keep(state)

    def _keep(self, state: Any) -> None:
        self.epoch = round(state.epoch)
        self._copy_weights()

    def _copy_weights(self) -> None:
        weights = self.model.state_dict().items()
        self.weights = {name: value.copy() for name, value in weights}

    def restore(self) -> None:
        """Restores the best weights of the model."""
        self.model.load_state_dict(self.weights)


def _accuracy(weights: np.ndarray[Any, Any] | None) -> Any:
    """Returns a Trainer metric: prediction accuracy, weighted by series."""

    def accuracy(prediction: EvalPrediction) -> dict[str, float]:
        logits, labels = np.asarray(prediction[0]), np.asarray(prediction[1])
        hits = logits.argmax(axis=1) == labels
        return {"accuracy": float(np.average(hits, weights=weights))}

    return accuracy


_NAMES = {
    "loss": "loss",
    "learning_rate": "learning_rate",
    "eval_loss": "validation_loss",
    "eval_accuracy": "validation_accuracy",
}


def _history(log: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Converts the Trainer's log to one dict per epoch."""
    epochs: dict[int, dict[str, float]] = {}
    for entry in log:
        epoch = round(entry["epoch"])
        if "train_runtime" in entry or epoch == 0:  # 0: before a continued fit
            continue
        row = epochs.setdefault(epoch, {"epoch": epoch})
        row.update({new: entry[old] for old, new in _NAMES.items() if old in entry})
    return list(epochs.values())
