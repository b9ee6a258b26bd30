"""The saving half of the Trainer: checkpoints, the best model, result files."""

from __future__ import annotations

import pathlib
import warnings
from typing import Any

from evolving_attention import durable
from evolving_attention.errors import CheckpointError, Interrupted
from evolving_attention.training import checkpoint as ckpt
from evolving_attention.training import numerics, results
from evolving_attention.training.state import plain

__all__ = ["SavingMixin"]


class SavingMixin:
    """What the Trainer writes to the disk."""

    def _save_checkpoint(self, weights_only: bool | None = None) -> None:
        """Commit checkpoint-<global_step>; a full disk stops the run or warns."""
        if weights_only is None:
            weights_only = self.args.save_only_model
        state, control = self.state, self.control
        state.stateful_callbacks = self.callback_handler.state_dict()
        state.pending = {n: v for n, v in vars(control).items() if v}
        if state.global_step >= state.max_steps:  # a longer run may go on from here
            state.pending.pop("should_training_stop", None)
        previous_best = state.best_model_checkpoint
        if state.best_global_step == state.global_step:
            folder = ckpt.folder_of(self.args, state.global_step)
            state.best_model_checkpoint = str(folder)
        saved = True
        try:
            if self.team.is_first:
                ckpt.save(self._parts, state, weights_only)
        except CheckpointError as error:
            if self.args.on_save_error == "stop":
                state.best_model_checkpoint = previous_best
                raise
            warnings.warn(f"training goes on without: {error}", stacklevel=4)
            saved = False
        if self.team.first(saved):
            self._event("on_save")
        else:
            state.best_model_checkpoint = previous_best

    def _save_and_leave(self) -> None:
        """Save what a signal interrupted, and raise Interrupted."""
        guard, step = self._guard, self.state.global_step
        self._save_checkpoint(weights_only=False)
        raise Interrupted(
            f"{guard.name} after step {step}: the state is saved in "
            f"{ckpt.folder_of(self.args, step)}; go on with "
            "resume_from_checkpoint=True",
            guard.received,
        )

    def save_model(self, output_dir: str | None = None) -> None:
        """Write weights, configuration, tokenizer and training_args.json.

        Of several processes the first one writes, here and in all that follows.

        Raises:
            NonFiniteError: a weight is NaN or infinite; nothing is written.
        """
        if not self.team.is_first:
            return
        folder = pathlib.Path(output_dir or self.args.output_dir)
        numerics.check_finite(self.model, None, f"saving {folder}")
        folder.mkdir(parents=True, exist_ok=True)
        self.model.save_pretrained(folder)
        ckpt.save_processing_class(self.processing_class, folder)
        durable.write_json(folder / ckpt.ARGUMENTS, plain(self.args.to_dict()))

    def save_state(self) -> None:
        """Write ``trainer_state.json`` into output_dir."""
        if not self.team.is_first:
            return
        self.state.stateful_callbacks = self.callback_handler.state_dict()
        pathlib.Path(self.args.output_dir).mkdir(parents=True, exist_ok=True)
        path = pathlib.Path(self.args.output_dir) / ckpt.STATE
        durable.write_json(path, self.state.to_dict())

    def _load_best(self) -> None:
        """Take the weights of the best checkpoint, when asked for."""
        best = self.state.best_model_checkpoint
        if not self.args.load_best_model_at_end:
            return
        if best is None:
            warnings.warn(
                "load_best_model_at_end: no checkpoint has been the best one, the last "
                "weights stay; let at least one evaluation happen before the end",
                stacklevel=3,
            )
            return
        durable.verify_directory(best)
        ckpt.load_model(self.model, pathlib.Path(best))

    def log_metrics(self, split: str, metrics: dict[str, Any]) -> None:
        """Show metrics as a table on stderr."""
        if self.team.is_first:
            results.print_metrics(split, metrics)

    def save_metrics(
        self, split: str, metrics: dict[str, Any], combined: bool = True
    ) -> None:
        """Write ``<split>_results.json`` and update ``all_results.json``."""
        if self.team.is_first:
            results.save_metrics(self.args.output_dir, split, metrics, combined)

    def _write_report(self, report: dict[str, Any]) -> None:
        """Write ``nonfinite-report.json`` into output_dir."""
        if not self.team.is_first:
            return
        folder = pathlib.Path(self.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        durable.write_json(folder / "nonfinite-report.json", plain(report))
