"""The Reporter: counts the steps of a run and makes its log entries and metrics."""

from __future__ import annotations

import math
import pathlib
import time
from typing import Any

from evolving_attention import durable
from evolving_attention.training import logging, progress, runtime
from evolving_attention.training.alone import Alone
from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.evaluate import speed_metrics
from evolving_attention.training.plan import RunPlan
from evolving_attention.training.state import TrainerState
from evolving_attention.training.step import StepOutcome


class Reporter:
    """Counts steps in the state of a run, and shows and writes its results.

    With several processes all of them count, but only the first shows and writes.

    Args:
        args, team: those of the run.
    """

    def __init__(self, args: TrainingArguments, team: Alone) -> None:
        self.args, self.team = args, team
        self.rows = self._first_step = 0
        self._began = 0.0

    def displays(self) -> list[Any]:
        """Returns the callbacks: JSON lines; TensorBoard on demand; a bar, or lines."""
        if not self.team.is_first:
            return []
        display = progress.progress_callback(self.args.disable_tqdm)
        found = [logging.JsonLinesCallback(), display or logging.ConsoleCallback()]
        if display is not None:
            found.append(progress.EvaluationProgress())
        if "tensorboard" in (self.args.report_to or ()):
            found.insert(1, logging.TensorBoardCallback())
        return found

    def begin(self, state: TrainerState, device: str) -> None:
        """Starts measuring time, rows and, if requested, peak memory."""
        if not self.args.skip_memory_metrics:
            runtime.reset_peak_memory()
            runtime.reset_peak_memory(device)
        self._began, self._first_step = time.monotonic(), state.global_step
        self.rows = 0

    def count(
        self,
        state: TrainerState,
        batches: int,
        outcome: StepOutcome,
        rate: float,
        plan: RunPlan,
    ) -> None:
        """Advances all counters by one step of ``batches`` batches."""
        state.global_step += 1
        state.batches_done += batches
        state.epoch = state.epoch_index + state.batches_done / plan.batches_per_epoch
        state.last_step = {"grad_norm": outcome.grad_norm, "learning_rate": rate}
        self.rows += outcome.rows
        if self.args.include_num_input_tokens_seen != "no":
            state.num_input_tokens_seen += outcome.tokens
        if outcome.known:
            self.add(state, outcome)

    def add(self, state: TrainerState, outcome: StepOutcome) -> None:
        """Adds the result of a step to the sums for the logged losses."""
        state.last_step["grad_norm"] = outcome.grad_norm
        if outcome.applied:
            state.total_loss += outcome.loss
            state.loss_steps += 1
            state.loss_since_log += outcome.loss
            state.steps_since_log += 1

    def step_logs(self, state: TrainerState) -> dict[str, Any]:
        """Returns mean loss since the last log, gradient norm and learning rate."""
        logs: dict[str, Any] = dict(state.last_step)
        if state.steps_since_log:
            mean = state.loss_since_log / state.steps_since_log
            logs = {"loss": mean, **logs}
        state.loss_since_log, state.steps_since_log = 0.0, 0
        if state.skipped_steps:
            logs["skipped_steps"] = state.skipped_steps
        return logs

    def enter(self, state: TrainerState, logs: dict[str, Any]) -> None:
        """Adds the epoch to ``logs``, and appends them to the log history."""
        logs["epoch"] = state.epoch
        if self.args.include_num_input_tokens_seen != "no":
            logs["num_input_tokens_seen"] = state.num_input_tokens_seen
        state.log_history.append({**logs, "step": state.global_step})

    def train_metrics(self, state: TrainerState, device: str) -> dict[str, float]:
        """Returns the whole run's loss; times and speeds since :meth:`begin`.

        If steps were skipped, ``train_skipped_steps`` is their number; the loss is NaN
        if no step had one.
        """
        seconds = time.monotonic() - self._began
        steps = state.global_step - self._first_step
        metrics = speed_metrics("train", seconds, self.rows, steps)
        metrics["train_loss"] = state.total_loss / max(1, state.loss_steps)
        if state.skipped_steps:
            metrics["train_skipped_steps"] = state.skipped_steps
        if state.global_step and not state.loss_steps:
            metrics["train_loss"] = math.nan
        if not self.args.skip_memory_metrics:
            for name, value in runtime.memory().items():
                metrics[f"train_mem_cpu_{name}"] = value
            if device != "cpu":
                for name, value in runtime.memory(device).items():
                    metrics[f"train_mem_gpu_{name}"] = value
        return metrics

    def write_nonfinite(self, report: dict[str, Any]) -> None:
        """Writes ``nonfinite-report.json`` into output_dir."""
        if not self.team.is_first:
            return
        folder = pathlib.Path(self.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        durable.write_json(folder / "nonfinite-report.json", durable.plain(report))
