"""Hyper-parameter search with optuna: ``Trainer.hyperparameter_search``."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from evolving_attention.errors import ConfigError, InputError, NonFiniteError, require
from evolving_attention.field_types import check_whole
from evolving_attention.training import search_ray
from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.trials import Watch, train_one

_STUDY = ("study_name", "storage", "sampler", "pruner", "load_if_exists")
_OPTIONS = {  # besides the study's; Ray's trials see no other trial
    "optuna": (*_STUDY, "timeout", "gc_after_trial"),
    "ray": (*(one for one in _STUDY if one != "pruner"), *search_ray.OPTIONS),
}
_DIRECTIONS = ("minimize", "maximize")
_PROGRESS = ("epoch", "num_input_tokens_seen")  # in metrics, but not results
_WHY = "for hyperparameter_search"


class BestRun(NamedTuple):
    """The best trial of a search.

    Attributes:
        run_id: number of the trial; its folder is ``output_dir/run-<run_id>``.
        objective: its value; a list if several objectives are optimized.
        hyperparameters: the options of the trial.
        run_summary: None, as with optuna in transformers.
    """

    run_id: str
    objective: float | list[float]
    hyperparameters: dict[str, Any]
    run_summary: Any = None


def default_hp_space(trial: Any) -> dict[str, Any]:
    """Samples learning rate, epochs, seed and batch size, as transformers does."""
    return {
        "learning_rate": trial.suggest_float("learning_rate", 1e-6, 1e-4, log=True),
        "num_train_epochs": trial.suggest_int("num_train_epochs", 1, 5),
        "seed": trial.suggest_int("seed", 1, 40),
        "per_device_train_batch_size": trial.suggest_categorical(
            "per_device_train_batch_size", [4, 8, 16, 32, 64]
        ),
    }


def default_objective(metrics: Mapping[str, Any]) -> float:
    """Returns the evaluation loss, or the sum of all other metrics if there are any.

    Raises:
        InputError: there is no metric, or one is no number.

    Example:
        >>> default_objective({"eval_loss": 0.5, "eval_runtime": 2.0, "epoch": 1.0})
        0.5
        >>> default_objective({"eval_loss": 0.5, "eval_f1": 0.25, "eval_accuracy": 0.5})
        0.75
    """
    ends = ("_runtime", "_per_second", "_samples")
    scores = {}
    for name, value in metrics.items():
        if name.endswith(ends) or "_mem_" in name or name in _PROGRESS:
            continue
        try:
            scores[name] = float(value)
        except (TypeError, ValueError):
            raise InputError(
                f"hyperparameter_search: the metric {name} is {value!r:.60}, expected "
                "a number; pass compute_objective, which chooses among the metrics"
            ) from None
    loss = scores.pop("eval_loss", None)
    if scores:
        return sum(scores.values())
    if loss is None:
        raise InputError(
            f"hyperparameter_search: the metrics are {', '.join(metrics)}, expected "
            "eval_loss or others; pass compute_objective"
        )
    return loss


def search(
    trainer: Any,
    *,
    hp_space: Callable[[Any], dict[str, Any]] | None,
    compute_objective: Callable[[dict[str, Any]], Any] | None,
    n_trials: int,
    direction: str | Sequence[str],
    backend: str | None,
    hp_name: Callable[[Any], str] | None,
    options: dict[str, Any],
) -> BestRun | list[BestRun]:
    """Implements :meth:`Trainer.hyperparameter_search`."""
    _check(trainer, n_trials, direction, backend, options)
    optuna = require("optuna", extra="sweep", why=_WHY)
    several = not isinstance(direction, str)
    study = optuna.create_study(
        **{"directions" if several else "direction": direction},
        **{name: value for name, value in options.items() if name in _STUDY},
    )
    _check_directions(study, [direction] if isinstance(direction, str) else direction)
    objective = compute_objective or default_objective
    space = hp_space or default_hp_space

    def prepare(trial: Any) -> TrainingArguments:
        return _arguments(trainer.args, trial, space, hp_name)

    def run(trial: Any) -> Any:
        args, watch = prepare(trial), Watch(trial, objective, not several)
        bare, callbacks = trainer._bare()
        train_one(bare, callbacks, args, watch)
        if watch.pruned:
            raise optuna.TrialPruned
        return watch.value

    chosen = {name: value for name, value in options.items() if name not in _STUDY}
    if backend == "ray":
        search_ray.run(trainer, study, prepare, objective, n_trials, chosen)
    else:
        study.optimize(run, n_trials=n_trials, catch=(NonFiniteError,), **chosen)
    done = optuna.trial.TrialState.COMPLETE
    if not study.get_trials(states=(done,)):
        raise InputError(
            f"hyperparameter_search: none of {len(study.trials)} trials has a result, "
            "expected at least one; see the log for the reason of each, and search "
            "where training does not diverge"
        )
    if several:
        return [
            BestRun(str(one.number), list(one.values), dict(one.params))
            for one in study.best_trials
        ]
    best = study.best_trial
    return BestRun(str(best.number), float(best.value), dict(best.params))


def _check(
    trainer: Any,
    n_trials: int,
    direction: str | Sequence[str],
    backend: str | None,
    options: dict[str, Any],
) -> None:
    """Rejects invalid searches before optuna is imported."""
    where = "hyperparameter_search"
    if trainer.model_init is None:
        raise ConfigError(
            f"{where}: the Trainer has a model and no model_init, expected a function "
            "that makes the model afresh for each trial; pass model_init= to Trainer"
        )
    known = _OPTIONS.get(backend or "optuna")
    if known is None:
        raise ConfigError(
            f"{where}: backend={backend!r}, expected 'optuna' or 'ray'; leave it out"
        )
    check_whole(where, 1, "20 is usual", n_trials=n_trials)
    wanted = [direction] if isinstance(direction, str) else [*direction]
    if not wanted or any(one not in _DIRECTIONS for one in wanted):
        raise ConfigError(
            f"{where}: direction={direction!r}, expected 'minimize' or 'maximize', or "
            "a list of them for several objectives; choose one"
        )
    for name in options:
        if name not in known:
            raise ConfigError(
                f"{where}: {name}={options[name]!r}, expected one of "
                f"{', '.join(known)}; leave it out (several trials at once: "
                "backend='ray', or evolving-attention sweep --workers)"
            )
    if trainer.team.size > 1:
        raise ConfigError(
            f"{where}: {trainer.team.size} processes train together, expected one; "
            "start a single process"
        )


def _check_directions(study: Any, wanted: Sequence[str]) -> None:
    """Rejects a stored study with another direction."""
    found = [one.name.lower() for one in study.directions]
    if found != [*wanted]:
        raise ConfigError(
            f"hyperparameter_search: the study {study.study_name!r} would "
            f"{' and '.join(found)}, expected {' and '.join(wanted)}; pass that as "
            "direction, or choose another study_name"
        )


def _arguments(
    args: TrainingArguments,
    trial: Any,
    space: Callable[[Any], dict[str, Any]],
    hp_name: Callable[[Any], str] | None,
) -> TrainingArguments:
    """Returns the arguments of one trial.

    Raises:
        ConfigError: the space has an unknown option, or differs from the study's.
    """
    try:
        chosen = space(trial)
    except ValueError as error:
        if "dynamic value space" not in str(error):
            raise
        raise ConfigError(
            f"hyperparameter_search: the study {trial.study.study_name!r} has another "
            f"search space ({error}), expected the same choices in each trial; choose "
            "another study_name or storage"
        ) from error
    if not isinstance(chosen, Mapping):
        raise ConfigError(
            f"hyperparameter_search: hp_space returned {chosen!r:.60}, a "
            f"{type(chosen).__name__}, expected a dict of TrainingArguments' options; "
            "return {'learning_rate': trial.suggest_float(…)}, for example"
        )
    chosen = dict(chosen)
    names = {field.name for field in dataclasses.fields(args)}
    for name in chosen:
        if name not in names:
            raise ConfigError(
                f"hyperparameter_search: hp_space returned {name!r}, expected options "
                "of TrainingArguments; read options of the model from the trial, "
                "which model_init(trial) takes"
            )
    folder = pathlib.Path(args.output_dir) / f"run-{trial.number}"
    chosen["output_dir"] = str(folder)
    if hp_name is not None and "run_name" in names:
        chosen["run_name"] = hp_name(trial)
    return dataclasses.replace(args, **chosen)
