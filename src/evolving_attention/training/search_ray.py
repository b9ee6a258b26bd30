"""``Trainer.hyperparameter_search(backend="ray")``: optuna proposes, Ray trains."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evolving_attention.errors import ConfigError, NonFiniteError, PeerLost, require
from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.ray_tasks import RayTasks
from evolving_attention.training.trials import Watch, takes_trial, train_one

OPTIONS = ("timeout", "resources_per_trial")
_LOGGER = logging.getLogger("evolving_attention")
_WHERE = "hyperparameter_search"


def _resources(given: Any) -> dict[str, float]:
    """Returns CPUs and GPUs of a trial: ``{"cpu": 1, "gpu": 0}``.

    Raises:
        ConfigError: it is not such a dict.
    """
    found = {} if given is None else given
    numbers = isinstance(found, dict) and all(
        isinstance(one, (int, float)) and not isinstance(one, bool) and one >= 0
        for one in found.values()
    )
    if not numbers or not set(found) <= {"cpu", "gpu"} or found.get("cpu", 1) == 0:
        raise ConfigError(
            f"{_WHERE}: resources_per_trial={given!r}, expected numbers of CPUs and "
            'GPUs such as {"cpu": 2, "gpu": 0}; correct it'
        )
    return dict(found)


def run(
    trainer: Any,
    study: Any,
    prepare: Callable[[Any], TrainingArguments],
    objective: Callable[..., Any],
    n_trials: int,
    options: dict[str, Any],
) -> None:
    """Trains ``n_trials`` trials of the study as Ray tasks, several at a time.

    Args:
        trainer: the Trainer, which stays unchanged.
        study: optuna's study; only this process asks and tells it.
        prepare: returns the arguments of a trial.
        objective: maps metrics to the objective.
        options: ``resources_per_trial`` and ``timeout``.

    A trial that diverges, or whose process dies, fails; the search continues.
    """
    fail = require("optuna", extra="sweep", why=f"for {_WHERE}").trial.TrialState.FAIL
    given = _resources(options.get("resources_per_trial"))
    seconds = options.get("timeout")
    end = None if seconds is None else time.monotonic() + seconds
    with RayTasks(None, None, _WHERE) as ray:
        device = "cpu" if trainer.args.use_cpu else str(trainer.args.device)
        wants_gpu = device.startswith("cuda") or (device == "auto" and ray.has_gpus)
        cpus, gpus = given.get("cpu", 1), given.get("gpu", float(wants_gpu))
        ray.check(cpus, gpus)
        places = max(1, int(ray.cpus // cpus))
        sent = ray.put((*trainer._bare(), objective))
        running: dict[Any, Any] = {}
        begun = 0
        try:
            while True:
                late = end is not None and time.monotonic() > end
                while begun < n_trials and len(running) < places and not late:
                    trial = study.ask()
                    begun += 1
                    running[None] = trial  # so that the study is told if this fails
                    work = _work(trainer, prepare(trial), trial, cpus)
                    task = ray.start(_train, sent, *work, cpus=cpus, gpus=gpus)
                    running[task] = running.pop(None)
                if not running:
                    return
                for task in ray.ready(list(running), 1.0):
                    _take(ray, study, running[task], task, fail)
                    del running[task]
        finally:
            for task, trial in running.items():
                if task is not None:
                    ray.stop(task, force=True)
                study.tell(trial, state=fail)


def _take(ray: RayTasks, study: Any, trial: Any, task: Any, fail: Any) -> None:
    """Tells the study how a trial ended.

    Raises:
        Exception: the training's exception, unless it diverged.
    """
    try:
        value = ray.result(task)
    except (NonFiniteError, PeerLost) as error:
        _LOGGER.warning("trial %d failed: %s", trial.number, error)
        trial.set_user_attr("error", str(error))
        study.tell(trial, state=fail)
    else:
        study.tell(trial, value)


def _work(
    trainer: Any, args: TrainingArguments, trial: Any, cpus: float
) -> tuple[TrainingArguments, dict[str, Any], int]:
    """Returns the arguments, the values and the number of a trial, for a task.

    A ``model_init(trial)`` is also called here: the study must choose the values that
    it reads from the trial.
    """
    if takes_trial(trainer.model_init):
        trainer.model_init(trial)
    changes: dict[str, Any] = {"output_dir": str(Path(args.output_dir).absolute())}
    if args.num_threads is None:
        changes["num_threads"] = max(1, int(cpus))
    return dataclasses.replace(args, **changes), dict(trial.params), trial.number


def _train(
    sent: tuple[Any, Any, Any],
    args: TrainingArguments,
    params: dict[str, Any],
    number: int,
) -> Any:
    """Runs one trial in a Ray process; returns its objective."""
    bare, own, objective = sent
    trial: Any = None
    if takes_trial(bare.model_init):
        optuna = require("optuna", extra="sweep", why=f"for {_WHERE}")
        trial = optuna.trial.FixedTrial(params, number)
    watch = Watch(trial, objective, prunes=False)
    train_one(bare, own, args, watch)
    return watch.value
