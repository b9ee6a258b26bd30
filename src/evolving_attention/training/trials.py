"""One trial of a hyper-parameter search: its model, training and objective."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.given import takes_trial

__all__ = ["Watch", "own_callbacks", "takes_trial", "train_one"]


class Watch:
    """Keeps the objective of the last evaluation, and stops hopeless trials."""

    def __init__(self, trial: Any, objective: Callable[..., Any], prunes: bool) -> None:
        self.trial, self.objective, self.prunes = trial, objective, prunes
        self.value: Any = None
        self.pruned = False

    def see(self, metrics: dict[str, Any], state: Any, control: Any) -> None:
        """Computes the objective and reports it to the study's pruner.

        Args:
            metrics: results of an evaluation, of all its data sets together.
            state, control: those of the trial's run.
        """
        self.value = self.objective(dict(metrics))
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
        make = _bound(make, watch.trial)
    trainer = bare._complete(args, make, list(callbacks))
    trainer._watch = watch
    trainer.train()
    if not watch.pruned and (watch.value is None or args.load_best_model_at_end):
        watch.prunes = False
        watch.see(trainer.evaluate(), trainer.state, trainer.control)


def _bound(make: Callable[..., Any], trial: Any) -> Callable[[], Any]:
    """Returns a function without parameters that calls ``make(trial)``."""
    return lambda: make(trial)


def own_callbacks(callbacks: Sequence[Any], theirs: Sequence[Any]) -> list[Any]:
    """Returns copies of the callbacks whose type is not among ``theirs``."""
    kinds = {type(one) for one in theirs}
    return [copy.copy(one) for one in callbacks if type(one) not in kinds]
