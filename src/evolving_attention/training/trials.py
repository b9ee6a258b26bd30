"""One trial of a hyper-parameter search: its model, training and objective."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.callbacks import TrainerCallback

__all__ = ["Watch", "own_callbacks", "takes_trial", "train_one"]


class Watch(TrainerCallback):
    """Keeps the objective of the last evaluation, and stops hopeless trials."""

    def __init__(self, trial: Any, objective: Callable[..., Any], prunes: bool) -> None:
        self.trial, self.objective, self.prunes = trial, objective, prunes
        self.value: Any = None
        self.pruned = False

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Computes the objective and reports it to the study's pruner."""
        self.value = self.objective(dict(kwargs["metrics"]))
        if not self.prunes:
            return
        self.trial.report(self.value, state.global_step)
        if self.trial.should_prune():
            self.pruned = control.should_training_stop = True


def train_one(
    bare: Any, callbacks: Sequence[Any], args: TrainingArguments, watch: Watch
) -> None:
    """Trains a trial, and evaluates it if necessary; ``watch`` has the result.

    Args:
        bare, callbacks: results of ``Trainer._bare``.
        args: arguments of the trial.
        watch: has the trial, which is passed to a ``model_init(trial)``.
    """
    make = bare.model_init
    if takes_trial(make):
        make = functools.partial(make, watch.trial)
    trainer = bare._complete(args, make, [*callbacks, watch])
    trainer.train()
    if not watch.pruned and (watch.value is None or args.load_best_model_at_end):
        watch.prunes = False
        trainer.evaluate()


def takes_trial(make: Callable[..., Any]) -> bool:
    """Whether ``make`` is a ``model_init(trial)``, not a ``model_init()``."""
    return bool(inspect.signature(make).parameters)


def own_callbacks(callbacks: Sequence[Any], theirs: Sequence[Any]) -> list[Any]:
    """Returns copies of the callbacks whose type is not among ``theirs``."""
    kinds = {type(one) for one in theirs}
    return [copy.copy(one) for one in callbacks if type(one) not in kinds]
