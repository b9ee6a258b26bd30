"""Evaluation and prediction: losses, logits and labels of a data set."""

from __future__ import annotations

import math
import reprlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from evolving_attention.data.collate import IGNORED
from evolving_attention.data.loader import PackedLoader
from evolving_attention.data.packed import SPAN
from evolving_attention.device_names import host_array
from evolving_attention.errors import ConfigError, InputError
from evolving_attention.metrics.prediction import EvalPrediction
from evolving_attention.training import batches as b
from evolving_attention.training import metric_names, runtime
from evolving_attention.training.alone import Alone
from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.callbacks import metric_key
from evolving_attention.training.state import PredictionOutput, TrainerState


@dataclass
class EvaluationResult:
    """Predictions and labels in the order of the data set, or of the batches.

    ``predictions`` is [N, ...] for sequence outputs and [tokens, ...] for token outputs
    ([tokens, 2] for start and end logits, with labels [N, 2], the positions); None with
    loss_only. Token outputs of a collator's padded batches are [N, longest, ...], and
    labels per token [N, longest]; rows of narrower batches end with -100 in both.
    ``loss`` is the mean over targets, which are rows or, with a label per token, those
    that are not -100; None without targets.
    """

    predictions: np.ndarray | None
    label_ids: np.ndarray | None
    loss: float | None
    rows: int
    batches: int
    token_loss: float = math.nan  # mean over packed target tokens, unsmoothed


def evaluation_loop(
    model: Any,
    batches: Iterable[b.Batch | None],
    *,
    loss_only: bool = False,
    options: dict[str, Any] | None = None,
    on_batch: Callable[[int], Any] | None = None,
    team: Alone | None = None,
    own_loss: Callable[..., Any] | None = None,
) -> EvaluationResult:
    """Runs the model over all batches without dropout and without gradients.

    Args:
        model: its training mode is restored afterwards.
        batches: batches as :mod:`.batches` describes. If all have ``row_ids``, results
            are in the order of these, else in the order of the batches.
        loss_only: keep no predictions.
        options: further arguments of the model's call if a batch has labels.
        on_batch: called with the number of finished batches; may raise to stop.
        team: the processes that share the batches. A batch of another process is
            None; every process gets the results of all.
        own_loss: replaces the model's loss, see :func:`replaced_loss`.
    """
    team = team or Alone()
    found = _Rows()
    # Per batch: number, loss · weight, nll · weight, weight, rows, has labels
    parts: list[tuple[int, float, float, int, int, bool]] = []
    done = 0
    iterator = iter(batches)
    with runtime.evaluating(model):
        try:
            for batch in iterator:
                if batch is not None:
                    labelled = b.has_targets(batch)
                    count = b.row_count(batch)
                    extra = (options or {}) if labelled else {}
                    if own_loss is not None and "labels" in batch:
                        out, value = own_loss(model, b.inputs_of(batch))
                    else:
                        out = model(**b.inputs_of(batch), **extra)
                        value = out.loss
                    weight = b.loss_weight(batch, out.logits)
                    scored = labelled and weight > 0  # a mean of no targets is NaN
                    loss = float(value.item()) * weight if scored else 0.0
                    nll = math.nan
                    if labelled and "decoder_sequence_offsets" in batch:
                        own = extra and scored
                        nll = _token_loss(out, batch) * weight if own else loss
                    parts.append((done, loss, nll, weight, count, labelled))
                    if not loss_only:
                        found.add(batch, _results(out), done)
                done += 1
                if on_batch is not None:
                    on_batch(done)
        finally:
            b.close(iterator)
    parts = sorted(map(tuple, team.gather(parts)))
    weights = sum(part[3] for part in parts)
    rows = sum(part[4] for part in parts)
    total = total_nll = 0.0
    for part in parts:
        total += part[1]
        total_nll += part[2]
    predictions, labels = found.in_order(team)
    labelled = bool(weights) and all(part[5] for part in parts)
    mean, nll = (total / weights, total_nll / weights) if labelled else (None, math.nan)
    return EvaluationResult(predictions, labels, mean, rows, done, nll)


def _results(out: Any) -> np.ndarray:
    """Returns a model's logits; for spans, start and end logits [..., 2]."""
    if out.logits is not None or getattr(out, "start_logits", None) is None:
        return host_array(out.logits)
    both = [host_array(part) for part in (out.start_logits, out.end_logits)]
    return np.stack(both, axis=-1)


def _token_loss(out: Any, batch: b.Batch) -> float:
    """Returns the mean cross entropy of the target tokens, without label smoothing."""
    from evolving_attention import functional as F

    loss: Any = F.cross_entropy(out.logits, np.asarray(batch["labels"]))
    return float(loss.item())


def given_loss(
    model: Any, inputs: dict[str, Any], loss_func: Callable[..., Any]
) -> tuple[Any, Any]:
    """Returns the model's output without labels, and the loss by ``loss_func``.

    As in Hugging Face's Trainer, it is called as ``loss_func(outputs, labels,
    num_items_in_batch=n)``. n counts this batch's labels, except those that are -100:
    steps and evaluations weight the means of their batches by these counts.
    """
    inputs = dict(inputs)
    labels = inputs.pop("labels")
    out = model(**inputs)
    count = int(np.sum(np.asarray(labels) != IGNORED))
    loss = loss_func(out, labels, num_items_in_batch=count)
    if not hasattr(loss, "item") or not hasattr(loss, "backward"):
        raise InputError(
            f"Trainer: compute_loss_func returned a {type(loss).__name__}, expected "
            "the mean loss as a Tensor; compute it of outputs.logits and labels (the "
            "model was called without them and has no loss)"
        )
    return out, loss


def replaced_loss(trainer: Any, usual: Any) -> Callable[..., Any] | None:
    """Returns f(model, inputs) = (outputs without labels, loss) of a replaced loss.

    Args:
        trainer: a Trainer, with a ``compute_loss_func``, or whose class has a
            ``compute_loss`` of its own.
        usual: the method of the base class; None is returned for it alone.
    """
    given = trainer.compute_loss_func
    if type(trainer).compute_loss is usual:
        return None if given is None else partial(given_loss, loss_func=given)

    def outputs_and_loss(model: Any, inputs: dict[str, Any]) -> tuple[Any, Any]:
        others = {name: value for name, value in inputs.items() if name != "labels"}
        return model(**others), trainer.compute_loss(model, inputs)

    return outputs_and_loss


class _Rows:
    """Outputs per row, collected in batch order and returned in data order.

    A collator may have made other rows than those of the data set: without the ids of
    all rows, the order of the batches remains.
    """

    def __init__(self) -> None:
        self.ids: list[np.ndarray] = []
        self.numbers: list[np.ndarray] = []  # of the batch of each row
        self.have_ids = True
        self.logits: list[np.ndarray] = []
        self.labels: list[np.ndarray] = []

    def add(self, batch: b.Batch, logits: np.ndarray, number: int) -> None:
        """Stores the results of batch ``number`` of the data set."""
        count = b.row_count(batch)
        self.have_ids &= "row_ids" in batch
        self.ids.append(b.row_ids(batch))
        self.numbers.append(np.full(count, number))
        values = logits.astype(np.float32) if logits.dtype.itemsize < 4 else logits
        self.logits += _by_row(batch, np.array(values))
        if "labels" in batch:
            self.labels += _by_row(batch, np.array(batch["labels"]))
        elif all(name in batch for name in SPAN):
            places = np.stack([np.asarray(batch[name]) for name in SPAN], axis=-1)
            self.labels += [places[i : i + 1] for i in range(count)]

    def in_order(self, team: Alone) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Returns (predictions, labels) of all processes, in the order of the class."""
        widths = [
            _common_width(team, what, rows)
            for what, rows in (("logits", self.logits), ("labels", self.labels))
        ]
        keys = self.ids if all(team.gather([self.have_ids])) else self.numbers
        if team.size > 1:
            keys = [team.arrays(_joined(keys))]
            self.logits = _exchanged(team, self.logits, widths[0])
            self.labels = _exchanged(team, self.labels, widths[1])
        if not self.logits:
            return None, None
        order = np.argsort(np.concatenate(keys), kind="stable")
        predictions = _joined([self.logits[i] for i in order], widths[0])
        if len(self.labels) != len(self.logits):
            if self.labels:
                raise InputError(
                    "evaluation: some batches have labels and some have none, expected "
                    "all or none; give every row of the data set a label, or no row"
                )
            return predictions, None
        return predictions, _joined([self.labels[i] for i in order], widths[1])


def _common_width(team: Alone, what: str, rows: list[np.ndarray]) -> int:
    """Returns the largest size of axis 1 in the rows of all processes; 0 without it.

    Raises:
        InputError: rows differ in another axis; each process raises it.
    """
    own = {row.shape[1:] for row in rows}
    shapes = sorted({tuple(shape) for shape in team.gather([*map(list, own)])})
    first = shapes[0] if shapes else ()
    odd = [one for one in shapes if (len(one), one[1:]) != (len(first), first[1:])]
    if odd:
        found, other = (", ".join(map(str, ("…", *one))) for one in (first, odd[0]))
        raise InputError(
            f"evaluation: {what} are [{found}] in one batch and [{other}] in another, "
            "expected sizes that differ in the second axis at most; if the "
            "attention_mask of some rows excludes tokens between others, pass "
            "data_collator=ea.data.collate.collate_padded"
        )
    return max((one[0] for one in shapes if one), default=0)


def _joined(arrays: list[np.ndarray], width: int = 0) -> np.ndarray:
    """Concatenates along axis 0; fills axis 1 up to ``width`` with -100.

    Metrics for transformers' Trainer expect this value in logits and labels.
    """
    if not arrays:
        return np.zeros(0, np.int64)
    if all(array.ndim < 2 or array.shape[1] == width for array in arrays):
        return np.concatenate(arrays)
    # int8 holds -100, which unsigned types do not
    kind = np.result_type(np.int8, *{array.dtype for array in arrays})
    shape = (sum(map(len, arrays)), width, *arrays[0].shape[2:])
    joined = np.full(shape, IGNORED, kind)
    start = 0
    for array in arrays:
        joined[start : start + len(array), : array.shape[1]] = array
        start += len(array)
    return joined


def _exchanged(team: Alone, rows: list[np.ndarray], width: int) -> list[np.ndarray]:
    """Returns the rows of all processes, one process after another."""
    lengths = team.arrays(np.array([len(row) for row in rows], np.int64))
    if not len(lengths):
        return []
    return np.split(team.arrays(_joined(rows, width)), np.cumsum(lengths)[:-1])


def _by_row(batch: b.Batch, values: np.ndarray) -> list[np.ndarray]:
    """Splits [B, ...] or [total tokens, ...] into one array [n, ...] per row."""
    rows = b.row_count(batch)
    if len(values) == rows:
        return [values[i : i + 1] for i in range(rows)]
    return [values[x:y] for x, y in pairwise(b.output_offsets(batch))]


def speed_metrics(
    prefix: str, seconds: float, rows: int | None = None, steps: int | None = None
) -> dict[str, float]:
    """``<prefix>_runtime``, ``_samples_per_second``, ``_steps_per_second``."""
    metrics = {f"{prefix}_runtime": round(seconds, 4)}
    seconds = max(seconds, 1e-9)
    if rows is not None:
        metrics[f"{prefix}_samples_per_second"] = round(rows / seconds, 3)
    if steps is not None:
        metrics[f"{prefix}_steps_per_second"] = round(steps / seconds, 3)
    return metrics


class Evaluator:
    """Runs a model over data sets and computes metrics.

    Args:
        args, team: arguments and team of the run; every process gets all results.
    """

    def __init__(self, args: TrainingArguments, team: Alone) -> None:
        self.args, self.team = args, team

    def predict(
        self,
        model: Any,
        loader: PackedLoader,
        prefix: str,
        *,
        loss_only: bool,
        compute_metrics: Callable[[EvalPrediction], Any] | None,
        on_batch: Callable[[int, int], Any],
        own_loss: Callable[..., Any] | None = None,
    ) -> PredictionOutput:
        """Predicts a data set in one pass: predictions, labels and prefixed metrics.

        Args:
            model: see :func:`evaluation_loop`.
            loader: loader of all rows.
            prefix: prefix of the metrics' names, ``<prefix>_…``.
            loss_only: keep no predictions.
            compute_metrics: maps predictions and labels to a dict.
            on_batch: called with the numbers of finished and of all batches; may raise.
            own_loss: see :func:`replaced_loss`; None: the model's loss.
        """
        total, began = len(loader), time.monotonic()
        smoothing = self.args.label_smoothing_factor
        found = evaluation_loop(
            model,
            loader,
            loss_only=loss_only,
            options={"label_smoothing": smoothing} if smoothing else {},
            on_batch=lambda done: on_batch(done, total),
            team=self.team,
            own_loss=own_loss,
        )
        metrics: dict[str, float] = {}
        if found.loss is not None:
            metrics["loss"] = found.loss
        if not math.isnan(found.token_loss):
            metrics["token_loss"] = found.token_loss
        both = found.predictions is not None and found.label_ids is not None
        if compute_metrics is not None and both:
            metrics.update(_computed(compute_metrics, found))
        named = {
            name if name.startswith(f"{prefix}_") else f"{prefix}_{name}": value
            for name, value in metrics.items()
        }
        seconds = time.monotonic() - began
        named.update(speed_metrics(prefix, seconds, found.rows, found.batches))
        predictions: Any = found.predictions  # None only with loss_only
        return PredictionOutput(predictions, found.label_ids, named)

    def is_new_best(self, state: TrainerState, metrics: dict[str, float]) -> bool:
        """Compares with the best value so far and stores a better one.

        The model before the first step is never the best: transformers only logs its
        evaluation.

        Raises:
            ConfigError: the metric is not among the results.
        """
        name = self.args.metric_for_best_model
        if name is None:
            return False
        key = metric_key(name)
        if key not in metrics:
            raise metric_names.missing(name, metrics)
        if state.global_step == 0:
            return False
        value = float(metrics[key])
        best, more = state.best_metric, self.args.greater_is_better
        if best is None:
            better = np.isfinite(value)
        else:
            better = value > best if more else value < best
        if better:
            state.best_metric, state.best_global_step = value, state.global_step
        return bool(better)


def _computed(compute_metrics: Any, found: EvaluationResult) -> dict[str, Any]:
    """Returns the checked result of ``compute_metrics``.

    Raises:
        ConfigError: the result is neither a number nor a dict with string keys.
    """
    values = compute_metrics(EvalPrediction(found.predictions, found.label_ids))
    named = metric_names.as_named(values)
    if named is None:
        raise ConfigError(
            f"Trainer: compute_metrics returned {reprlib.repr(values)}, a "
            f"{type(values).__name__}, expected a number, or a dict of names and "
            "numbers; for example return {'accuracy': value}"
        )
    return dict(named)
