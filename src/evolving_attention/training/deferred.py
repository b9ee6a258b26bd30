"""Enqueues optimizer steps on a device without waiting for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from evolving_attention import optim
from evolving_attention.autograd import buffer_copies
from evolving_attention.errors import NonFiniteError
from evolving_attention.training import batches as b
from evolving_attention.training import runtime
from evolving_attention.training.state import TrainerState
from evolving_attention.training.step import (
    StepOutcome,
    StepRunner,
    StepSums,
    forget_gradients,
    parts_of,
    present,
    zero_of,
)


@dataclass
class _Pending:
    """An enqueued step, with the data to repeat it."""

    batches: list[b.Batch | None]
    random_state: tuple[int, int]
    step: int
    epoch: float
    splits: int
    tokens: int
    rows: int


class DeferredStepRunner(StepRunner):
    """Enqueues steps without waiting; results are read by :meth:`look`.

    Loss, norm and clipping factor stay on the device, in a log that :meth:`look` reads.
    After a non-finite step the optimizer changes nothing. :meth:`look` detects this,
    repeats the step as :class:`StepRunner` does, from the same weights with the same
    dropout, and raises its error.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        from evolving_attention import _core

        super().__init__(*args, **kwargs)
        self._log = _core.StepLog()
        self._pending: list[_Pending] = []

    def run(self, batches: list[b.Batch | None], state: TrainerState) -> StepOutcome:
        """Enqueues the step ``state.global_step + 1``; its outcome is not known yet."""
        forget_gradients(self.optimizer, self.parameters)
        before = runtime.core_random_state()
        if self.args.auto_find_batch_size:  # after another error the run ends
            self._before = buffer_copies(self.buffers)
        sums = self._accumulate_within_memory(batches, state)
        if not sums.has_loss:
            self._log.restart_step()
            return self._without_targets(sums)
        self.event("on_pre_optimizer_step")
        scale = self._log.finish(self.parameters, self.args.max_grad_norm or 0.0)
        self.optimizer.step(scale=scale)
        self.event("on_optimizer_step")
        forget_gradients(self.optimizer, self.parameters)
        self._pending.append(
            _Pending(
                batches,
                before,
                state.global_step,
                state.epoch,
                state.batch_splits,
                sums.tokens,
                sums.rows,
            )
        )
        self.is_full = self._log.steps >= self._log.capacity
        return StepOutcome(math.nan, math.nan, sums.tokens, sums.rows, known=False)

    def look(self, state: TrainerState) -> list[StepOutcome]:
        """Waits for all steps since the last look, and returns their outcomes.

        Raises:
            NonFiniteError: a step was not finite; this and later steps changed nothing.
        """
        done, self._pending, self.is_full = self._pending, [], False
        outcomes = []
        rows = self._log.look()
        self.team.check()  # before the results are used
        for one, (loss, norm, applied) in zip(done, rows, strict=True):
            if not applied:
                self._repeat(one, state)
            outcomes.append(StepOutcome(loss, norm, one.tokens, one.rows))
        return outcomes

    def _accumulate(self, batches: list[b.Batch | None], splits: int) -> StepSums:
        """Accumulates gradients of the mean loss; the log receives the losses."""
        self._log.restart_step()
        sums = StepSums.of(present(batches))
        shares = self._shares(batches)
        for index in self.team.turns(shares, self._log):
            for part, share in parts_of(batches[index], splits, shares[index]):
                loss = self.loss_of(part)
                if b.target_count(part) or not math.isnan(float(loss.item())):
                    sums.has_loss = True
                else:
                    loss = zero_of(loss)
                self.team.record(self._log, loss, share)
                self.team.backward(loss if share == 1.0 else loss * share)
            if index + self.team.size < len(batches):
                self.event("on_substep_end")
        self.team.combine(sums, True)
        return sums

    def _repeat(self, one: _Pending, state: TrainerState) -> None:
        """Repeats a non-finite step, to locate the cause and report it."""
        state.global_step, state.epoch = one.step, one.epoch
        state.batch_splits = one.splits
        runtime.set_core_random_state(one.random_state)
        StepRunner(
            self.model,
            self.optimizer,
            self.args,
            loss_of=self.loss_of,
            event=lambda name: None,
            on_report=self.on_report,
            team=self.team,
        ).run(one.batches, state)
        raise NonFiniteError(
            f"step {one.step + 1}: the loss or the gradient was not finite, but it was "
            "finite when the step was repeated. The weights are unchanged and valid, "
            "but the device does not reproduce its results: check its memory, and "
            "please report it",
            {"step": one.step + 1},
        )


def step_runner(device: str, optimizer: Any, args: Any) -> type[StepRunner]:
    """Returns the runner class for a device: on a GPU, one that does not wait.

    The deferred runner needs an optimizer of this package, which can skip an update on
    the device, and ``on_nonfinite="stop"``: other settings need each step's result.
    """
    waits = (
        device == "cpu"
        or args.on_nonfinite != "stop"
        or not isinstance(optimizer, optim.Optimizer)
    )
    return StepRunner if waits else DeferredStepRunner
