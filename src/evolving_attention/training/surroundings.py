"""What a Trainer does beside its loop: files of the model and of results, callbacks."""

from __future__ import annotations

import pathlib
from typing import Any

from evolving_attention import durable
from evolving_attention.training import checkpoint as ckpt
from evolving_attention.training import numerics, results
from evolving_attention.training.alone import Alone
from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.callbacks import CallbackHandler
from evolving_attention.training.state import TrainerState, plain

__all__ = ["Surroundings"]


class Surroundings:
    """The methods of a Trainer that write files or change its callbacks.

    With several processes the first one writes.
    """

    model: Any
    args: TrainingArguments
    processing_class: Any
    team: Alone
    state: TrainerState
    callback_handler: CallbackHandler

    def save_model(self, output_dir: str | None = None) -> None:
        """Write weights, configuration, tokenizer and training_args.json.

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
        if self.team.is_first:
            self.state.stateful_callbacks = self.callback_handler.state_dict()
            path = pathlib.Path(self.args.output_dir) / ckpt.STATE
            path.parent.mkdir(parents=True, exist_ok=True)
            durable.write_json(path, self.state.to_dict())

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
        """Remove and return a callback, given as instance or class, or None."""
        return self.callback_handler.pop(callback)

    def remove_callback(self, callback: Any) -> None:
        """Remove a callback, given as instance or class."""
        self.callback_handler.pop(callback)
