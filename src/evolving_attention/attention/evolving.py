"""Evolving Attention: maps flow through a residual link and a convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evolving_attention.attention.base import (
    Evolve,
    all_zero,
    check_in_core,
    register,
    without_false,
)

__all__ = ["Evolving"]


@register("evolving")
@dataclass(frozen=True)
class Evolving(Evolve):
    """From the second layer on, with the previous map L' and this layer's scores S:

        I = α L' + (1 − α) S
        L = β ReLU(Conv(I) + b) + (1 − β) I

    The first layer is L = S. The convolution takes heads as channels, zero padding.

    Args:
        alpha: α, weight of the previous map (skip), in [0, 1]. 0: "without skip". A
            list has one number for each layer; the first layer's is not used.
        beta: β, weight of the convolution, in [0, 1], or a list. 0: "without
            convolution", and then there are no parameters. α = β = 0 is
            :class:`Vanilla`.
        kernel_size: side of the kernel, odd; 3 in the papers, 1 and 5 in ablations.
        conv_init: ``"fan_in"``: truncated normal of variance 1/(heads · k²), as in the
            released program; ``"identity"``: every head starts as itself.
        learnable: whether each layer learns its own α and β, which start at ``alpha``
            and ``beta`` and stay within [0, 1]: they are the sigmoid of the parameters
            ``evolving_alpha_logit`` and ``evolving_beta_logit``. A weight of 0 leaves
            its part out and is not learned. Without the fused kernel.

    Raises:
        ConfigError: a value is out of its range, a list has not one number for each
            layer of the model, or a weight of 1 is to be learned.

    Example:
        >>> import evolving_attention as ea
        >>> ea.attention.Evolving(alpha=[0, 0.1, 0.2], beta=0.3).alpha
        (0, 0.1, 0.2)

    Source: Wang et al., Evolving Attention with Residual Convolutions, ICML 2021,
    Eq. 4. The authors' released programs swap the two names; here they are the paper's.
    """

    alpha: float | list[float] = 0.1
    beta: float | list[float] = 0.1
    kernel_size: int = 3
    conv_init: str = "fan_in"
    learnable: bool = False

    def __post_init__(self) -> None:
        check_in_core(self)

    @property
    def equals_vanilla(self) -> bool:
        """Whether these options compute vanilla attention: α = β = 0."""
        return all_zero(self.alpha, self.beta)

    def to_dict(self) -> dict[str, Any]:
        """As it stands in config.json, where ``learnable`` stands only if True."""
        return without_false(super().to_dict(), "learnable")
