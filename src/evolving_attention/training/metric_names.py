"""Checks before training that ``metric_for_best_model`` is among the results."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from evolving_attention.data.features import Features
from evolving_attention.data.parallel import ParallelDataset
from evolving_attention.data.row_forms import sets_of
from evolving_attention.device_names import host_array
from evolving_attention.errors import ConfigError
from evolving_attention.metrics.prediction import EvalPrediction
from evolving_attention.training import batches as b
from evolving_attention.training import runtime
from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.callbacks import TrainerCallback, metric_key
from evolving_attention.training.loaders import Loaders


def check_before_training(
    args: TrainingArguments,
    model: Any,
    dataset: Any,
    compute_metrics: Callable[[EvalPrediction], Any] | None,
    *,
    collated: bool,
    callbacks: list[Any],
    rows_of: Callable[[Any], Any],
) -> None:
    """Rejects a mistyped ``metric_for_best_model`` now, not after the first epoch.

    Only if all results are known beforehand: no callback of the caller adds to them,
    and neither reading rows nor making batches runs the caller's code. If the code of
    ``compute_metrics`` contains the name, nothing is run.

    Args:
        args, model, compute_metrics: those of the run.
        dataset: the evaluation set, or a dict of several.
        collated: whether a collator of the caller makes the batches.
        callbacks: callbacks of the run.
        rows_of: maps a data set to its rows.

    Raises:
        ConfigError: no evaluation will return it; the message names those available.
    """
    name = args.metric_for_best_model
    metrics = None if args.prediction_loss_only else compute_metrics
    if name is None or dataset is None or _results_may_be_changed(callbacks):
        return
    if _mentions(getattr(metrics, "__code__", None), name.removeprefix("eval_")):
        return
    rows = {key: rows_of(part) for key, part in sets_of(dataset, "eval").items()}
    plain = all(type(part) in (list, tuple, Features) for part in rows.values())
    if metrics is None or (plain and not collated):
        alone = Loaders(args)
        loaders = {key: alone.evaluation(part, None) for key, part in rows.items()}
        _check(name, model, loaders, metrics)


def as_named(values: Any) -> Mapping[str, Any] | None:
    """Returns the result of ``compute_metrics`` by name; a number becomes ``metric``.

    Returns None if it is neither a number nor such a dict.
    """
    number = np.ndim(values) == 0 and not isinstance(values, (bool, str, Mapping))
    if number and np.asarray(values).dtype.kind in "iuf":
        return {"metric": float(values)}
    if isinstance(values, Mapping) and all(isinstance(name, str) for name in values):
        return values
    return None


def missing(name: str, known: Any) -> ConfigError:
    """Returns the error for a metric that no evaluation returns."""
    return ConfigError(
        f"metric_for_best_model={name!r}: no {metric_key(name)} among the evaluation's "
        f"results, expected one of {', '.join(sorted(known))}; name one of "
        "them, or return it from compute_metrics"
    )


def _results_may_be_changed(callbacks: list[Any]) -> bool:
    """Whether a callback of the caller sees results, which it may add to."""
    return any(
        getattr(type(callback), event, None) is not getattr(TrainerCallback, event)
        for callback in callbacks
        if not type(callback).__module__.startswith("evolving_attention.")
        for event in ("on_evaluate", "on_log")
    )


def _mentions(code: Any, name: str) -> bool:
    """Whether a function's code, or a nested one, has this text as a constant."""
    return any(
        _mentions(part, name)
        if hasattr(part, "co_consts")
        else name == part or (isinstance(part, tuple) and name in part)
        for part in getattr(code, "co_consts", ())
    )


def _of_pairs(loader: Any) -> set[str]:
    """Returns the additional results of evaluating packed pairs."""
    if not isinstance(loader.features, ParallelDataset):
        return set()
    return {"token_loss"}


def _check(
    name: str,
    model: Any,
    loaders: Mapping[str, Any],
    compute_metrics: Callable[[EvalPrediction], Any] | None,
) -> None:
    """Rejects a metric that the evaluation of these sets will not return.

    The names of ``compute_metrics``'s results are found by calling it with the labels
    of all rows, and with the logits of one batch repeated for all. If that fails, the
    first evaluation reports the error. Weights and random numbers stay unchanged.

    Args:
        name: ``metric_for_best_model``.
        model: the model to evaluate.
        loaders: batches of each data set, by the prefix of its results' names.
        compute_metrics: that of the run; None: there are only losses.

    Raises:
        ConfigError: it is not there; the message names those that are.
    """
    known: set[str] = set()
    with runtime.kept_random_state():
        for prefix, loader in loaders.items():
            names = {"loss", *_of_pairs(loader)}
            if compute_metrics is not None:
                found = _names(model, loader, compute_metrics)
                if found is None:
                    return
                names |= found
            known |= {
                n if n.startswith(f"{prefix}_") else f"{prefix}_{n}" for n in names
            }
            if metric_key(name) in known:
                return
    timings = ("runtime", "samples_per_second", "steps_per_second")
    if metric_key(name) not in {f"{p}_{time}" for p in loaders for time in timings}:
        raise missing(name, known)


def _names(model: Any, loader: Any, compute_metrics: Any) -> set[str] | None:
    """Returns the names of ``compute_metrics``'s results; None if unknown."""
    labels, last = [], None
    for batch in loader:
        if "labels" not in batch:
            return None
        labels.append(np.asarray(batch["labels"]))
        last = batch
    if last is None:
        return None
    was_training = model.training
    model.eval()
    try:
        logits = host_array(model(**b.inputs_of(last)).logits).astype(np.float32)
        together = np.concatenate(labels)
        shape = (len(together), *logits.shape[1:])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pair = EvalPrediction(np.resize(logits, shape), together)
            values = as_named(compute_metrics(pair))
            return None if values is None else set(values)
    except Exception:  # the first evaluation reports it; nothing is lost
        return None
    finally:
        model.train(was_training)
