"""Predictive Attention: the previous map predicts this one through convolutions."""

from __future__ import annotations

from dataclasses import dataclass

from evolving_attention.attention.base import (
    Evolve,
    all_zero,
    register,
)


@register("predictive")
@dataclass(frozen=True)
class Predictive(Evolve):
    """L = α CNN(L') + (1 − α) S; the convolutions see only the previous map.

    Args:
        alpha: α, weight of the prediction, in [0, 1]. A list has one number per layer;
            the first layer's is ignored.
        num_layers: m, number of 3 × 3 convolutions in CNN, each followed by ReLU; 0:
            CNN is the identity ("with residual connection").

    Raises:
        ConfigError: a value is out of range.

    Source: Predictive Attention Transformer, section 3.3.
    """

    alpha: float | list[float]
    num_layers: int = 1

    @property
    def equals_vanilla(self) -> bool:
        """Whether these options compute vanilla attention: α = 0."""
        return all_zero(self.alpha)
