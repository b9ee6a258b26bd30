"""A model in another element type: as a copy of its own, or in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evolving_attention.modeling.base import PreTrainedModel

__all__ = ["convert", "converted"]


def converted(model: PreTrainedModel, dtype: str) -> Any:
    """A new model with the same config, modes, device and weights, in ``dtype``.

    Weights are rounded to the nearest value.

    Raises:
        ConfigError: there is no such element type.
    """
    copy = type(model).__new__(type(model))
    copy._build(model.config, dtype)
    for (_, mine), (_, theirs) in zip(copy._state(), model._state(), strict=True):
        mine.copy_(theirs.to("cpu"))
    if model.device != "cpu":
        copy._core.to(model.device)
    copy.load_report = model.load_report
    if model.is_gradient_checkpointing:
        copy.gradient_checkpointing_enable()
    return copy.train(model.training)


def convert(model: PreTrainedModel, dtype: str) -> None:
    """Turn ``model`` itself into ``dtype``; its tensors are new ones."""
    if dtype != model.dtype:
        vars(model).update(vars(converted(model, dtype)))
