"""One optimizer step: forward and backward over its batches, checks, clip, update."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from evolving_attention import optim
from evolving_attention.autograd import buffer_copies, put_back
from evolving_attention.errors import NonFiniteError, OutOfMemory
from evolving_attention.training import batches as b
from evolving_attention.training import numerics, runtime
from evolving_attention.training.alone import Alone
from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.state import TrainerState

MAX_SKIPPED_IN_A_ROW = 10  # with on_nonfinite="skip", more than this is an error


@dataclass
class StepOutcome:
    """Mean loss of the step's batches, gradient norm before clipping, and counts."""

    loss: float
    grad_norm: float
    tokens: int
    rows: int
    applied: bool = True
    known: bool = True  # False: the device still computes it, see deferred.py


@dataclass
class StepSums:
    """Sums over a step's batches, and the first non-finite batch."""

    tokens: int
    rows: int
    losses: list[tuple[int, float]] = field(default_factory=list)  # by batch
    bad_batch: int | None = None
    has_loss: bool = False  # whether any batch has targets
    random_state: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, batches: list[b.Batch]) -> StepSums:
        """Returns the initial sums: counts of the batches, nothing accumulated yet."""
        return cls(sum(map(b.token_count, batches)), sum(map(b.row_count, batches)))

    @property
    def loss(self) -> float:
        """The mean loss of the step's batches."""
        total = 0.0
        for _, part in self.losses:  # since Python 3.12, sum() rounds differently
            total += part
        return total


class StepRunner:
    """Runs optimizer steps; a non-finite step leaves the weights unchanged.

    Neither such a step nor an attempt that ran out of memory moves the running
    statistics of batch norm.

    The loss of a step is the mean over the targets of all its batches, as if they were
    one batch: labels that are not -100, masked tokens, starts and ends of answers that
    are in their sequences, or rows. A batch without targets, whose loss is therefore
    NaN, is left out; a step without any leaves weights and optimizer unchanged.

    Args:
        model, optimizer, args: as in the Trainer.
        loss_of: returns the mean loss of a batch, a tensor for backward.
        event: called with the name of each callback event.
        on_report: called with the report of a non-finite step, before it raises.
        team: the processes that share a step; batches of other ranks are None.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        args: TrainingArguments,
        *,
        loss_of: Callable[[b.Batch], Any],
        event: Callable[[str], Any],
        on_report: Callable[[dict[str, Any]], Any],
        team: Alone | None = None,
    ) -> None:
        self.model, self.optimizer, self.args = model, optimizer, args
        self.loss_of, self.event, self.on_report = loss_of, event, on_report
        self.team = team or Alone()
        self.parameters = [p for _, p in model.named_parameters()]
        self.buffers = [t for _, t in getattr(model, "named_buffers", tuple)()]
        self._before: list[tuple[Any, Any]] = []  # the buffers before the step

    def run(self, batches: list[b.Batch | None], state: TrainerState) -> StepOutcome:
        """Runs the step ``state.global_step + 1`` on ``batches``.

        Raises:
            NonFiniteError: a loss or gradient is not finite and on_nonfinite="stop";
                the optimizer has not run.
            OutOfMemory: memory ran out, and batches must not or cannot be split.
        """
        forget_gradients(self.optimizer, self.parameters)
        self._before = buffer_copies(self.buffers)
        sums = self._accumulate_within_memory(batches, state)
        if not sums.has_loss:
            return self._without_targets(sums)
        norm = math.nan
        if sums.bad_batch is None:
            norm = optim.global_grad_norm(self.parameters)
        self.team.check()
        outcome = StepOutcome(sums.loss, norm, sums.tokens, sums.rows)
        if math.isfinite(norm) and sums.bad_batch is None:
            state.skipped_in_a_row = 0
        elif not self._go_on(batches, sums, outcome, state):
            state.skipped_steps += 1
            state.skipped_in_a_row += 1
            forget_gradients(self.optimizer, self.parameters)
            outcome.applied = False
            return outcome
        self.event("on_pre_optimizer_step")
        self._clip_and_update(norm)
        self.event("on_optimizer_step")
        forget_gradients(self.optimizer, self.parameters)
        return outcome

    def _without_targets(self, sums: StepSums) -> StepOutcome:
        """Returns the outcome of a step that changes nothing."""
        self.team.check()
        forget_gradients(self.optimizer, self.parameters)
        warnings.warn(
            "a step without targets changes nothing: all labels of its batches are "
            "-100, or all answers end outside their sequences; leave such rows out if "
            "they are not meant to be there",
            stacklevel=5,
        )
        return StepOutcome(math.nan, 0.0, sums.tokens, sums.rows, applied=False)

    is_full = False
    """Whether :meth:`look` is due before the next step."""

    def look(self, state: TrainerState) -> list[StepOutcome]:
        """Returns the outcomes of pending steps; here there are none."""
        return []

    def _clip_and_update(self, norm: float) -> None:
        """Runs the optimizer; this package's optimizers clip in the same pass."""
        limit = self.args.max_grad_norm
        if not limit or not math.isfinite(norm):
            self.optimizer.step()
        elif isinstance(self.optimizer, optim.Optimizer):
            self.optimizer.step(optim.clip_scale(norm, limit))
        else:
            optim.clip_grad_norm_(self.parameters, limit)
            self.optimizer.step()

    def _accumulate_within_memory(
        self, batches: list[b.Batch | None], state: TrainerState
    ) -> StepSums:
        """Accumulates gradients; splits batches further when memory runs out."""
        before = runtime.core_random_state()
        while True:
            try:
                return self._accumulate(batches, state.batch_splits)
            except OutOfMemory:
                put_back(self._before)
                largest = max(map(b.row_count, present(batches)), default=0)
                if not self.args.auto_find_batch_size or state.batch_splits >= largest:
                    raise
            forget_gradients(self.optimizer, self.parameters)
            runtime.set_core_random_state(before)
            state.batch_splits *= 2
            apart = ", but batch norm sees each part by itself" if self.buffers else ""
            warnings.warn(
                f"out of memory at step {state.global_step + 1}: every batch is now "
                f"split into {state.batch_splits} parts; the effective batch size "
                f"is unchanged{apart}",
                stacklevel=4,
            )

    def _shares(self, batches: list[b.Batch | None]) -> list[float]:
        """Returns each batch's share of the step's loss, other ranks' included."""
        if len(batches) == 1:
            return [1.0]
        own = [None if batch is None else b.counts_of(batch) for batch in batches]
        return b.shares_of(self.team.merged(own))

    def _accumulate(self, batches: list[b.Batch | None], splits: int) -> StepSums:
        """Accumulates gradients of the mean loss; a non-finite one stops by default."""
        sums = StepSums.of(present(batches))
        anyway = self.args.on_nonfinite == "warn"
        shares = self._shares(batches)
        for index in self.team.turns(shares):
            if sums.bad_batch is None or anyway:
                parts = parts_of(batches[index], splits, shares[index])
                self._add_batch(sums, index, parts, anyway)
                more = index + self.team.size < len(batches)
                if more and (anyway or sums.bad_batch is None):
                    self.event("on_substep_end")
        self.team.combine(sums, anyway)
        return sums

    def _add_batch(
        self,
        sums: StepSums,
        index: int,
        parts: list[tuple[b.Batch, float]],
        anyway: bool,
    ) -> None:
        """Runs forward and backward of one batch, in parts; stops after a bad loss."""
        for part, share in parts:
            if sums.bad_batch is None:
                sums.random_state = runtime.core_random_state()
            loss = self.loss_of(part)
            value = float(loss.item())
            finite = math.isfinite(value)
            if finite or not math.isnan(value) or b.target_count(part):
                sums.has_loss = True
            else:
                loss, value, finite = zero_of(loss), 0.0, True
            sums.losses.append((index, share * value))
            if not finite and sums.bad_batch is None:
                sums.bad_batch = index
                if not anyway:
                    return
            self.team.backward(loss if share == 1.0 else loss * share)

    def _go_on(
        self,
        batches: list[b.Batch | None],
        sums: StepSums,
        outcome: StepOutcome,
        state: TrainerState,
    ) -> bool:
        """Reports a non-finite step; True: update anyway, False: skip, else raise."""
        step = state.global_step + 1
        bad, moved = sums.bad_batch, buffer_copies(self.buffers)
        put_back(self._before)
        report = self.team.report(
            bad,
            lambda: numerics.nonfinite_report(
                self.model,
                self.optimizer,
                present(batches) if bad is None else present([batches[bad]]),
                bad,
                sums.random_state,
                step=step,
                epoch=state.epoch,
                loss=sums.loss,
                grad_norm=outcome.grad_norm,
            ),
        )
        self.on_report(report)
        rows = report["bad_row_ids"]
        shown = ", ".join(map(str, rows[:8])) + (" …" if len(rows) > 8 else "")
        what = "gradient" if sums.bad_batch is None else "loss"
        known = all("row_ids" in batch for batch in present(batches))
        whole = "training set" if known else "batch, as data_collator made it"
        text = (
            f"step {step}: the {what} is not finite; first non-finite tensor: "
            f"{report['kind']} {report['tensor']}; rows {shown} of the {whole}"
        )
        policy = self.args.on_nonfinite
        hopeless = bool(report["parameters"] or report["optimizer_state"])
        too_many = state.skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW
        if policy == "stop" or (policy == "skip" and (hopeless or too_many)):
            raise NonFiniteError(
                f"{text}; the optimizer has not run and nothing was saved. Look into "
                "nonfinite-report.json, then correct these rows, lower learning_rate, "
                "or pass on_nonfinite='skip'",
                report,
            )
        warnings.warn(
            f"{text}; {'the update is skipped' if policy == 'skip' else 'going on'}",
            stacklevel=5,
        )
        if policy == "warn":
            put_back(moved)
        return policy == "warn"


def zero_of(loss: Any) -> Any:
    """Returns 0 in place of the NaN that is the mean of no targets.

    It is computed from the loss, with gradients of 0: in a team, every batch must draw
    the same numbers and send the same gradients.
    """
    return loss.masked_fill(loss.isnan(), 0.0)


def forget_gradients(optimizer: Any, parameters: list[Any]) -> None:
    """Clears all gradients, also of parameters that have no optimizer."""
    optimizer.zero_grad()
    for parameter in parameters:
        parameter.grad = None


def parts_of(
    batch: Any, splits: int, share: float = 1.0
) -> list[tuple[b.Batch, float]]:
    """Splits a batch by rows; each part with its part of ``share``.

    The loss of a batch is a mean over its targets, and so is that of each part. A part
    without targets has no loss, and is left out. (The next-sentence loss of
    pre-training is a mean over rows, not over masked tokens: with splits its weight
    per row varies slightly.)
    """
    parts = b.split_rows(batch, splits)
    if len(parts) == 1:
        return [(batch, share)]
    within = b.shares_of(map(b.counts_of, parts))
    pairs = zip(parts, within, strict=True)
    return [(part, share * own) for part, own in pairs if own]


def present(batches: list[b.Batch | None]) -> list[b.Batch]:
    """Returns this rank's batches."""
    return [batch for batch in batches if batch is not None]
