"""The Saver: checkpoints, the best model, and saving after an interruption."""

from __future__ import annotations

import pathlib
import signal
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

from evolving_attention import durable
from evolving_attention.errors import (
    CheckpointError,
    Error,
    Interrupted,
    NonFiniteError,
)
from evolving_attention.training import checkpoint as ckpt
from evolving_attention.training.alone import Alone
from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.callbacks import CallbackHandler, metric_key
from evolving_attention.training.interrupts import InterruptGuard
from evolving_attention.training.state import TrainerControl, TrainerState


class Saver:
    """Writes the Trainer's files; with several processes, only the first writes.

    Call :meth:`begin` before any method that writes checkpoints.

    Args:
        args, team: those of the run.
        callbacks: callbacks whose states are saved too.
        on_saved: called after a checkpoint is committed.
        on_report: called with the report on weights that cannot be saved.
    """

    writes = True  # False: write no files

    def __init__(
        self,
        args: TrainingArguments,
        team: Alone,
        callbacks: CallbackHandler,
        on_saved: Callable[[], Any],
        on_report: Callable[[dict[str, Any]], Any],
    ) -> None:
        self.args, self.team = args, team
        self.callbacks, self.on_saved = callbacks, on_saved
        self.on_report = on_report

    def alone(self) -> AbstractContextManager[None]:
        """Context of a run that saves; others may not save there: ConfigError."""
        saves = self.writes and self.args.save_strategy != "no"
        is_writer = saves and self.team.is_first
        return ckpt.alone(self.args) if is_writer else nullcontext()

    def begin(self, parts: ckpt.RunParts) -> None:
        """Sets the parts that checkpoints of this run consist of."""
        self.parts = parts

    def checkpoint(self, state: TrainerState, control: TrainerControl) -> bool:
        """Commits checkpoint-<global_step>; a full disk stops the run or warns."""
        failure = self.commit(state, control, self.args.save_only_model)
        if failure is not None and self.team.is_first:
            warnings.warn(f"training continues without it: {failure}", stacklevel=4)
        return failure is None

    def commit(
        self, state: TrainerState, control: TrainerControl, weights_only: bool = False
    ) -> str | None:
        """Writes a checkpoint; returns the reason of a tolerated failure.

        Raises:
            CheckpointError: it failed, and ``on_save_error`` is ``stop``.
            NonFiniteError: on all ranks, if a weight or moment is not finite.
        """
        self._note_callbacks(state, control)
        previous_best = state.best_model_checkpoint
        if state.best_global_step == state.global_step:
            folder = ckpt.folder_of(self.args, state.global_step)
            state.best_model_checkpoint = str(folder)
        failure: str | None = None
        bad: list[Any] | None = None  # text and report of a NonFiniteError
        try:
            if self.team.is_first:
                ckpt.save(self.parts, state, weights_only)
        except CheckpointError as error:
            if self.args.on_save_error == "stop":
                state.best_model_checkpoint = previous_best
                raise
            failure = str(error)
        except NonFiniteError as error:
            report = {"step": state.global_step, "epoch": state.epoch, **error.report}
            self.on_report(report)
            bad = [f"{error}; {self._what_is_saved()}", report]
        failure, bad = self.team.first((failure, bad))
        if bad is not None:
            state.best_model_checkpoint = previous_best
            raise NonFiniteError(*bad)
        if failure is None:
            self.on_saved()
        else:
            state.best_model_checkpoint = previous_best
        return failure

    def _note_callbacks(self, state: TrainerState, control: TrainerControl) -> None:
        """Stores the callbacks' states and pending requests in the state."""
        state.stateful_callbacks = self.callbacks.state_dict()
        stop = "should_training_stop"  # the resumed run decides for itself
        state.pending = {n: v for n, v in vars(control).items() if v and n != stop}

    def leave(
        self, state: TrainerState, control: TrainerControl, guard: InterruptGuard
    ) -> NoReturn:
        """Saves the run after a signal, and raises Interrupted."""
        step = state.global_step
        failure = self.commit(state, control)
        if failure is None:
            told = f"the state is {self._where(ckpt.folder_of(self.args, step))}"
        else:
            told = f"the state is not saved ({failure}); {self._what_is_saved()}"
        raise Interrupted(
            f"{guard.name} after step {step}: {told}", guard.received or signal.SIGINT
        )

    def _where(self, folder: pathlib.Path) -> str:
        """Returns a sentence on a checkpoint that was just saved and its use."""
        last = ckpt.get_last_checkpoint(self.args.output_dir)
        newest = last is not None and pathlib.Path(last).name == folder.name
        wanted = True if newest else str(folder)  # a run from an older one may be alone
        return f"saved in {folder}; go on with resume_from_checkpoint={wanted!r}"

    def _what_is_saved(self) -> str:
        """Returns a sentence on the newest complete checkpoint and its use."""
        last = ckpt.get_last_checkpoint(self.args.output_dir)
        if last is None:
            return "there is no checkpoint: nothing of this run is kept, train again"
        if not (pathlib.Path(last) / ckpt.OPTIMIZER).is_file():
            return f"{last} holds older weights only; load them with from_pretrained"
        return f"go on from {last} with resume_from_checkpoint=True"

    def leave_after_the_end(
        self, state: TrainerState, control: TrainerControl, guard: InterruptGuard
    ) -> NoReturn:
        """Saves the state if no checkpoint has it, and raises Interrupted."""
        folder = ckpt.folder_of(self.args, state.global_step)
        saved, loads_best = folder.is_dir(), self.args.load_best_model_at_end
        if self.writes and not saved and not loads_best:
            saved = self.commit(state, control) is None
        if saved:
            told = f"the state is saved in {folder}"
        elif loads_best and state.best_model_checkpoint:
            told = f"the best model is saved in {state.best_model_checkpoint}"
        else:
            told = "the trained model is not saved"
        raise Interrupted(
            f"{guard.name} after the last step, training had ended: {told}",
            guard.received or signal.SIGINT,
        )

    def keep_unscored(
        self, state: TrainerState, control: TrainerControl, error: Exception
    ) -> None:
        """Saves the trained state after a failed evaluation, and names its folder.

        Other ranks may be at another point, so this does not communicate with them.
        """
        step = state.global_step
        if not self.writes or not self.team.is_first or step == 0:
            return
        self._note_callbacks(state, control)
        try:
            folder = ckpt.save(self.parts, state)
            told = f"is {self._where(folder)}"
        except Error as failure:
            told = f"could not be saved ({failure}); {self._what_is_saved()}"
        warnings.warn(
            f"the evaluation after step {step} failed ({type(error).__name__}: "
            f"{error}); what was trained {told}",
            stacklevel=4,
        )

    def load_best(self, model: Any, state: TrainerState) -> None:
        """Loads the weights of the best checkpoint, if requested."""
        best = state.best_model_checkpoint
        if not self.args.load_best_model_at_end:
            return
        if best is None:
            key = metric_key(str(self.args.metric_for_best_model))
            values = [entry[key] for entry in state.log_history if key in entry]
            advice = "evaluate at least once before the end"
            if values and state.best_metric is None:
                advice = f"{key} was {values[-1]}, never a finite number; correct it"
            warnings.warn(
                "load_best_model_at_end: no checkpoint has been the best one, so the "
                f"last weights are kept; {advice}",
                stacklevel=3,
            )
            return
        durable.verify_directory(best)
        ckpt.load_model(model, pathlib.Path(best))


class NoSaver(Saver):
    """Writes no files, and keeps nothing after a signal."""

    writes = False
    told: str  # the error's text after the number of steps

    def leave(
        self, state: TrainerState, control: TrainerControl, guard: InterruptGuard
    ) -> NoReturn:
        """Raises Interrupted."""
        raise Interrupted(
            f"{guard.name} after step {state.global_step} of {state.max_steps}"
            f"{self.told}",
            guard.received or signal.SIGINT,
        )
