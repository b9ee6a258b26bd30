"""Optimizer and schedule of a Trainer: the caller's, or made for each run."""

from __future__ import annotations

from typing import Any

from evolving_attention import optim
from evolving_attention.errors import ConfigError
from evolving_attention.training import given, schedules
from evolving_attention.training.arguments import TrainingArguments


class Optimizers:
    """The methods of a Trainer that make its optimizer and schedule.

    Subclasses may override those without an underscore, as with transformers' Trainer.
    """

    model: Any
    args: TrainingArguments
    optimizer: Any
    lr_scheduler: Any
    _remade: tuple[Any, Any] = (None, None)  # those that a run makes anew

    def _given(self) -> tuple[Any, Any]:
        """Returns the caller's optimizer and schedule; None: to be made for a run.

        Raises:
            ConfigError: they cannot be used; see :func:`given.check_optimizers`.
        """
        optimizer, schedule = self.optimizer, self.lr_scheduler
        if schedule is None or schedule is self._remade[1]:
            schedule = None
            if optimizer is self._remade[0]:
                optimizer = None
        return given.check_optimizers((optimizer, schedule))

    def _make_optimizers(self, num_training_steps: int) -> None:
        """Sets optimizer and schedule of a run.

        Raises:
            ConfigError: every parameter of the model is frozen, or one of the two
                cannot be used.
        """
        given.check_trainable(self.model)
        before = self.optimizer, self.lr_scheduler = self._given()
        try:
            self.create_optimizer_and_scheduler(num_training_steps=num_training_steps)
        finally:
            now = optimizer, schedule = self.optimizer, self.lr_scheduler
            self._remade = (
                None if optimizer is before[0] else optimizer,
                None if schedule is before[1] else schedule,
            )
        given.check_optimizers(now)
        if None in now:
            name = "optimizer" if now[0] is None else "lr_scheduler"
            raise ConfigError(
                f"{type(self).__name__}: {name} is None where training begins, "
                f"expected the one to train with; set self.{name} in the overridden "
                "create_… method"
            )

    def create_optimizer_and_scheduler(self, num_training_steps: int) -> None:
        """Sets ``optimizer`` and ``lr_scheduler`` for a run, by the methods below.

        Args:
            num_training_steps: the optimizer steps of the run.
        """
        self.optimizer = self.create_optimizer() or self.optimizer
        made = self.create_scheduler(
            num_training_steps=num_training_steps, optimizer=self.optimizer
        )
        self.lr_scheduler = made or self.lr_scheduler

    def create_optimizer(self, model: Any = None) -> Any:
        """Makes the optimizer that ``args`` name, if there is none, and returns it.

        Biases, norms and learned α and β have no weight decay.

        Args:
            model: the model to train; default: the Trainer's.
        """
        if self.optimizer is None:
            named = (self.model if model is None else model).named_parameters()
            settings = self.args.optimizer_settings()
            self.optimizer = optim.create(self.args.optim, named, **settings)
        return self.optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """Makes the schedule that ``args`` name, if there is none, and returns it.

        Args:
            num_training_steps: the optimizer steps of the run; each run makes its own.
            optimizer: the schedule sets its rates; default: the Trainer's.
        """
        if self.lr_scheduler is None:
            options: Any = self.args.lr_scheduler_kwargs  # a dict after its check
            self.lr_scheduler = schedules.get_scheduler(
                self.args.lr_scheduler_type,
                self.optimizer if optimizer is None else optimizer,
                self.args.get_warmup_steps(num_training_steps),
                num_training_steps,
                options,
            )
            self._remade = self._remade[0], self.lr_scheduler
        return self.lr_scheduler
