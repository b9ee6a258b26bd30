"""Evolving Attention: maps pass through a residual link and a convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evolving_attention.attention.base import (
    Evolve,
    all_zero,
    register,
    without_false,
)


@register("evolving")
@dataclass(frozen=True)
class Evolving(Evolve):
    """Maps evolve by a residual link and a convolution, from the second layer on.

    With the previous map L' and this layer's scores S:

        I = α L' + (1 − α) S
        L = β ReLU(Conv(I) + b) + (1 − β) I

    The first layer has L = S. The convolution's channels are the heads; zero padding.

    Args:
        alpha: α, weight of the previous map (skip), in [0, 1]. 0: "without skip". A
            list has one number per layer; the first layer's is ignored.
        beta: β, weight of the convolution, in [0, 1], or a list. 0: "without
            convolution", and then there are no parameters. α = β = 0 is
            :class:`Vanilla`.
        kernel_size: side of the kernel, odd; 3 in the papers, 1 and 5 in ablations.
        conv_init: ``"fan_in"``: truncated normal of variance 1/(heads · k²), as in the
            released program; ``"identity"``: each head's map is unchanged at first.
        learnable: whether each layer learns its own α and β, which start at ``alpha``
            and ``beta`` and stay within [0, 1]: they are the sigmoid of the parameters
            ``evolving_alpha_logit`` and ``evolving_beta_logit``. A weight of 0 drops
            its term and is not learned. Not supported by the fused kernel.

    Raises:
        ConfigError: a value is out of range, the length of a list is not the model's
            number of layers, or a weight of 1 is to be learned.

    Example:
        >>> import evolving_attention as ea
        >>> ea.attention.Evolving(alpha=[0, 0.1, 0.2], beta=0.3).alpha
        (0, 0.1, 0.2)

    Source: Wang et al., Evolving Attention with Residual Convolutions, ICML 2021,
    Eq. 4. The authors' released programs swap the two names; here they are as in the
    paper.
    """

    alpha: float | list[float] = 0.1
    beta: float | list[float] = 0.1
    kernel_size: int = 3
    conv_init: str = "fan_in"
    learnable: bool = False

    @property
    def equals_vanilla(self) -> bool:
        """Whether these options compute vanilla attention: α = β = 0."""
        return all_zero(self.alpha, self.beta)

    def to_dict(self) -> dict[str, Any]:
        """Returns the form in config.json; ``learnable`` is present only if True."""
        return without_false(super().to_dict(), "learnable")
