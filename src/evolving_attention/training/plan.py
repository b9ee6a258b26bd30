"""The length of a run: steps per epoch, total steps, epochs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evolving_attention.errors import ConfigError
from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.state import TrainerState

SHORT_RUN_LOGS = 10  # logs of a run shorter than the default logging_steps


@dataclass(frozen=True)
class RunPlan:
    """Lengths of a run; a step is an optimizer step.

    ``batches_per_epoch`` counts batches; the last step of an epoch may use fewer
    batches than other steps.
    """

    batches_per_epoch: int
    steps_per_epoch: int
    max_steps: int
    num_epochs: int

    def tell(self, state: TrainerState, args: TrainingArguments) -> None:
        """Writes lengths and intervals into the state, where callbacks read them."""
        state.max_steps, state.num_train_epochs = self.max_steps, self.num_epochs
        state.train_batch_size = args.per_device_train_batch_size
        state.logging_steps = args.every("logging_steps", self.max_steps)
        default = args.logging_steps == type(args).logging_steps
        if default and state.logging_steps > self.max_steps:  # a short run logs too
            state.logging_steps = math.ceil(self.max_steps / SHORT_RUN_LOGS) or 1
        state.eval_steps = args.every("eval_steps", self.max_steps)
        state.save_steps = args.every("save_steps", self.max_steps)


def make_plan(
    args: TrainingArguments, batches_per_epoch: int, processes: int = 1
) -> RunPlan:
    """Computes the lengths from the arguments, by Hugging Face's rules.

    A step uses ``processes`` times ``gradient_accumulation_steps`` batches.

    Raises:
        ConfigError: an epoch has no batch (drop_last on a set smaller than a batch).
    """
    if batches_per_epoch < 1:
        raise ConfigError(
            "TrainingArguments: dataloader_drop_last=True leaves no batch of "
            f"{args.per_device_train_batch_size} rows in this training set, expected "
            "at least one; lower per_device_train_batch_size or keep the last batch"
        )
    in_step = processes * args.gradient_accumulation_steps
    per_epoch = math.ceil(batches_per_epoch / in_step)
    if args.max_steps > 0:
        total, epochs = args.max_steps, math.ceil(args.max_steps / per_epoch)
    else:
        total = math.ceil(args.num_train_epochs * per_epoch)
        epochs = math.ceil(args.num_train_epochs)
    return RunPlan(batches_per_epoch, per_epoch, total, epochs)
