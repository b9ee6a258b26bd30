"""Hooks into the training loop: events, their callbacks, and early stopping.

Events, arguments and control switches follow Hugging Face's callbacks; a callback can
keep state across a resume with ``state_dict`` and ``load_state_dict``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evolving_attention.errors import ConfigError
from evolving_attention.optim.rules import is_number
from evolving_attention.training.state import TrainerControl, TrainerState

if TYPE_CHECKING:
    from evolving_attention.training.arguments import TrainingArguments


def metric_key(name: str) -> str:
    """Returns the key of a metric in evaluation results: ``f1`` → ``eval_f1``."""
    return name if name.startswith("eval_") else f"eval_{name}"


class TrainerCallback:
    """Base of all callbacks: override the events you need.

    Every event receives ``args``, ``state`` and ``control`` and, by keyword, ``model``,
    ``optimizer``, ``lr_scheduler``, ``processing_class``, ``train_dataset`` and
    ``eval_dataset``; ``on_log`` also receives ``logs``, ``on_evaluate`` and
    ``on_predict`` ``metrics``. An event may return a new control, or None to keep it.
    """

    def on_init_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """The Trainer has been built."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Training starts or resumes."""

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Training ended, possibly by an error or a signal."""

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """A pass over the data starts."""

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """A pass over the data ended."""

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """An optimizer step starts."""

    def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """A batch of an accumulated step is done (not called for the last one)."""

    def on_pre_optimizer_step(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> Any:
        """Gradients are clipped; the optimizer runs next."""

    def on_optimizer_step(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> Any:
        """The optimizer has run; the gradients still exist."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """An optimizer step is complete."""

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """An evaluation is complete; ``metrics`` by keyword."""

    def on_predict(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """A prediction is complete; ``metrics`` by keyword."""

    def on_prediction_step(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> Any:
        """One batch of an evaluation or prediction; ``done`` and ``total`` batches."""

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """A checkpoint has been committed."""

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Values are logged; ``logs`` by keyword."""

    def state_dict(self) -> dict[str, Any]:
        """Returns plain values to save in checkpoints."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the result of :meth:`state_dict`."""


class CallbackHandler:
    """Calls the callbacks one after another and keeps their state.

    Args:
        callbacks: classes or instances; a class is built without arguments.
        args: the training arguments, passed to every event.
        objects: returns the keyword arguments of an event; called for each event.
    """

    def __init__(
        self, callbacks: list[Any], args: TrainingArguments, objects: Any
    ) -> None:
        self.callbacks: list[TrainerCallback] = []
        self.args, self.objects = args, objects
        for callback in callbacks:
            self.add(callback)

    def add(self, callback: Any) -> None:
        """Appends a callback, given as instance or class."""
        built = callback() if isinstance(callback, type) else callback
        if not hasattr(built, "on_step_end"):
            raise ConfigError(
                f"callbacks has {callback!r}, expected a TrainerCallback or its class; "
                "derive it from evolving_attention.callbacks.TrainerCallback"
            )
        self.callbacks.append(built)

    def check(self) -> None:
        """Checks, before anything of an earlier run is removed, that all can work.

        Raises:
            ConfigError: :class:`EarlyStoppingCallback` has no metric to watch.
        """
        for callback in self.callbacks:
            if isinstance(callback, EarlyStoppingCallback):
                callback.check(self.args)

    def pop(self, callback: Any) -> TrainerCallback | None:
        """Removes and returns a callback, given as instance or class."""
        for held in self.callbacks:
            if held is callback or (
                isinstance(callback, type) and type(held) is callback
            ):
                self.callbacks.remove(held)
                return held
        return None

    def call(
        self, event: str, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> TrainerControl:
        """Runs one event on all callbacks and returns the resulting control."""
        objects = self.objects()
        for callback in self.callbacks:
            handle = getattr(callback, event, None)
            if handle is None:
                continue
            control = handle(self.args, state, control, **objects, **kwargs) or control
        return control

    def _named(self) -> list[tuple[str, TrainerCallback]]:
        """Returns callbacks by stable names: the class name, numbered if repeated."""
        seen: dict[str, int] = {}
        named = []
        for callback in self.callbacks:
            name = type(callback).__name__
            seen[name] = seen.get(name, 0) + 1
            named.append(
                (name if seen[name] == 1 else f"{name}#{seen[name]}", callback)
            )
        return named

    def state_dict(self) -> dict[str, Any]:
        """Returns the states of all callbacks that have one."""
        states: dict[str, Any] = {
            name: getattr(callback, "state_dict", dict)()
            for name, callback in self._named()
        }
        return {name: state for name, state in states.items() if state}

    def load_state_dict(self, states: dict[str, Any]) -> None:
        """Restores the state of every callback; ignores states of absent ones."""
        for name, callback in self._named():
            if name in states:
                callback.load_state_dict(states[name])


class DefaultFlowCallback(TrainerCallback):
    """Decides when to log, evaluate, save and stop, from the training arguments."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Sets the events due by step, and the end of the run."""
        step = state.global_step
        if step == 1 and args.logging_first_step:
            control.should_log = True
        if args.logging_strategy == "steps" and step % state.logging_steps == 0:
            control.should_log = True
        if (
            args.eval_strategy == "steps"
            and (step % state.eval_steps == 0 or step >= state.max_steps)
            and args.eval_delay <= step
        ):
            control.should_evaluate = True
        if args.save_strategy == "steps" and step % state.save_steps == 0:
            control.should_save = True
        if step >= state.max_steps:
            control.should_training_stop = True
            if args.save_strategy == "steps":
                control.should_save = True

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Sets the events due by epoch."""
        if args.logging_strategy == "epoch":
            control.should_log = True
        if args.eval_strategy == "epoch" and args.eval_delay <= state.epoch:
            control.should_evaluate = True
        if args.save_strategy == "epoch":
            control.should_save = True


class EarlyStoppingCallback(TrainerCallback):
    """Stops when the chosen metric has not improved for some evaluations.

    Args:
        early_stopping_patience: evaluations without improvement before stopping, >= 1.
        early_stopping_threshold: smallest change that counts as improvement, >= 0.

    Raises:
        ConfigError: patience or threshold is out of range; before training: there is
            no metric to watch.
    """

    def __init__(
        self, early_stopping_patience: int = 1, early_stopping_threshold: float = 0.0
    ) -> None:
        pair = early_stopping_patience, early_stopping_threshold
        if not all(map(is_number, pair)) or pair[0] < 1 or pair[1] < 0:
            raise ConfigError(
                "EarlyStoppingCallback: expected early_stopping_patience >= 1 and "
                f"early_stopping_threshold >= 0, got {pair[0]!r} and {pair[1]!r}; give "
                "such numbers"
            )
        self.patience, self.threshold = pair
        self.waited = 0

    def on_train_begin(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """Starts a new run afresh; stops a resumed one that had waited long enough."""
        if state.global_step == 0:
            self.waited = 0
        control.should_training_stop |= self.waited >= self.patience

    def check(self, args: Any) -> None:
        """Checks that there is a metric to watch.

        Raises:
            ConfigError: there is none.
        """
        if args.metric_for_best_model is None or args.eval_strategy == "no":
            raise ConfigError(
                "EarlyStoppingCallback: expected a metric to watch, got "
                f"metric_for_best_model={args.metric_for_best_model!r} and "
                f"eval_strategy={args.eval_strategy!r}; set metric_for_best_model and "
                "eval_strategy='epoch' or 'steps' in TrainingArguments"
            )

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Counts the evaluations that do not improve on the best value so far."""
        value = kwargs["metrics"].get(metric_key(args.metric_for_best_model))
        if value is None:
            return
        best = state.best_metric
        gain = 0.0 if best is None else value - best
        if best is None or (
            gain > self.threshold if args.greater_is_better else -gain > self.threshold
        ):
            self.waited = 0
        else:
            self.waited += 1
        if self.waited >= self.patience:
            control.should_training_stop = True

    def state_dict(self) -> dict[str, Any]:
        """Returns the number of evaluations without improvement."""
        return {"waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues counting from a checkpoint."""
        self.waited = int(state["waited"])
