"""The reporting half of the Trainer: callbacks, logged values, metrics of a run."""

from __future__ import annotations

from typing import Any

from evolving_attention.training import logging, progress, runtime
from evolving_attention.training.evaluate import speed_metrics
from evolving_attention.training.plan import RunPlan
from evolving_attention.training.step import StepOutcome, StepRunner

__all__ = ["ReportingMixin"]


class ReportingMixin:
    """What the Trainer tells its callbacks, and they the user."""

    def log(self, logs: dict[str, Any]) -> None:
        """Add the epoch to ``logs``, keep them in log_history, tell the callbacks."""
        logs["epoch"] = self.state.epoch
        if self.args.include_num_input_tokens_seen != "no":
            logs["num_input_tokens_seen"] = self.state.num_input_tokens_seen
        self.state.log_history.append({**logs, "step": self.state.global_step})
        self._event("on_log", logs=logs)

    def _take(self, outcome: StepOutcome) -> None:
        """Count what a step came to."""
        state = self.state
        state.last_step["grad_norm"] = outcome.grad_norm
        if outcome.applied:
            state.total_loss += outcome.loss
            state.loss_steps += 1
            state.loss_since_log += outcome.loss
            state.steps_since_log += 1

    def _look(self, runner: StepRunner) -> None:
        """Count the steps that a device was still busy with."""
        for outcome in runner.look(self.state):
            self._take(outcome)

    def _reads_results(self) -> bool:
        """Whether what follows this step logs, evaluates, saves or leaves."""
        control = self.control
        return (
            control.should_log
            or control.should_evaluate
            or control.should_save
            or (self._guard is not None and self._guard.received is not None)
        )

    def _log_step(self) -> None:
        """Log the mean loss since the last time, gradient norm and learning rate."""
        state, logs = self.state, dict(self.state.last_step)
        if state.steps_since_log:
            mean = state.loss_since_log / state.steps_since_log
            logs = {"loss": mean, **logs}
        state.loss_since_log, state.steps_since_log = 0.0, 0
        if state.skipped_steps:
            logs["skipped_steps"] = state.skipped_steps
        self.log(logs)

    def _count(
        self, batches: int, outcome: StepOutcome, rate: float, plan: RunPlan
    ) -> None:
        """Move all counters on by one step."""
        state = self.state
        state.global_step += 1
        state.batches_done += batches
        state.epoch = state.epoch_index + state.batches_done / plan.batches_per_epoch
        state.last_step = {"grad_norm": outcome.grad_norm, "learning_rate": rate}
        self._rows_seen += outcome.rows
        if self.args.include_num_input_tokens_seen != "no":
            state.num_input_tokens_seen += outcome.tokens
        if outcome.known:
            self._take(outcome)

    def _train_metrics(self, seconds: float, rows: int, steps: int) -> dict[str, float]:
        """What the run took and came to; speeds are of this call alone."""
        metrics = speed_metrics("train", seconds, rows, steps)
        metrics["train_loss"] = self.state.total_loss / max(1, self.state.loss_steps)
        if not self.args.skip_memory_metrics:
            for name, value in runtime.memory().items():
                metrics[f"train_mem_cpu_{name}"] = value
            if self.device != "cpu":
                for name, value in runtime.memory(self.device).items():
                    metrics[f"train_mem_gpu_{name}"] = value
        return metrics

    def is_world_process_zero(self) -> bool:
        """Whether this is the process that writes: rank 0, or the only one."""
        return self.team.is_first

    def is_local_process_zero(self) -> bool:
        """Whether this is the first process of this machine."""
        return self.team.local_rank == 0

    def add_callback(self, callback: Any) -> None:
        """Add a callback, given as instance or class."""
        self.callback_handler.add(callback)

    def pop_callback(self, callback: Any) -> Any:
        """Take out and return a callback, given as instance or class, or None."""
        return self.callback_handler.pop(callback)

    def remove_callback(self, callback: Any) -> None:
        """Take out a callback, given as instance or class."""
        self.callback_handler.pop(callback)

    def _event(self, name: str, **kwargs: Any) -> None:
        self.control = self.callback_handler.call(
            name, self.state, self.control, **kwargs
        )

    def _objects(self) -> dict[str, Any]:
        """What every callback gets by keyword."""
        return {
            "model": self.model,
            "processing_class": self.processing_class,
            "optimizer": self.optimizer,
            "lr_scheduler": self.lr_scheduler,
            "train_dataset": self.train_dataset,
            "eval_dataset": self.eval_dataset,
        }

    def _reporters(self) -> list[Any]:
        """JSON lines always; TensorBoard on demand; a bar, or lines without one.

        Of several processes the first one alone writes.
        """
        if not self.team.is_first:
            return []
        display = progress.progress_callback(self.args.disable_tqdm)
        found = [logging.JsonLinesCallback(), display or logging.ConsoleCallback()]
        if "tensorboard" in self.args.report_to:
            found.insert(1, logging.TensorBoardCallback())
        return found
