"""What a subclass of the Trainer may want to replace: the loss and the optimizer."""

from __future__ import annotations

from typing import Any

from evolving_attention import optim
from evolving_attention.errors import InputError
from evolving_attention.training import schedules
from evolving_attention.training.plan import RunPlan

__all__ = ["OverridesMixin"]


class OverridesMixin:
    """The Trainer's defaults for the loss, the optimizer and the schedule."""

    def compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        """The mean loss of a batch as a 0-d tensor; here the model's own.

        Args:
            model: in training mode.
            inputs: the batch as the model takes it, with ``labels``.

        Example::

            class Weighted(ea.Trainer):
                def compute_loss(self, model, inputs):
                    return super().compute_loss(model, inputs) * 0.5
        """
        smoothing = self.args.label_smoothing_factor
        options = {"label_smoothing": smoothing} if smoothing else {}
        loss = model(**inputs, **options).loss
        if loss is None:
            raise InputError(
                "Trainer: the model gave no loss, expected 'label' or 'labels' in "
                f"every row; this batch has {', '.join(inputs)}"
            )
        return loss

    def create_optimizer_and_scheduler(self, plan: RunPlan) -> None:
        """AdamW without decay on biases and LayerNorm, and the schedule of the args."""
        args = self.args
        self.optimizer, self.lr_scheduler = self._given
        if self.optimizer is None:
            self.optimizer = optim.AdamW(
                optim.decay_groups(self.model.named_parameters(), args.weight_decay),
                lr=args.learning_rate,
                betas=(args.adam_beta1, args.adam_beta2),
                eps=args.adam_epsilon,
                weight_decay=args.weight_decay,
            )
        if self.lr_scheduler is None:
            self.lr_scheduler = schedules.get_scheduler(
                args.lr_scheduler_type,
                self.optimizer,
                plan.warmup_steps,
                plan.max_steps,
                args.lr_scheduler_kwargs,
            )
