"""Evolving Attention: maps flow through a residual link and a convolution."""

from __future__ import annotations

from dataclasses import dataclass

from evolving_attention.attention.base import Evolve, check_in_core, register

__all__ = ["Evolving"]


@register("evolving")
@dataclass(frozen=True)
class Evolving(Evolve):
    """From the second layer on, with the previous map L' and this layer's scores S:

        I = α L' + (1 − α) S
        L = β ReLU(Conv(I) + b) + (1 − β) I

    The first layer is L = S. The convolution takes heads as channels, zero padding.

    Args:
        alpha: α, weight of the previous map (skip), in [0, 1]. 0: "without skip".
        beta: β, weight of the convolution, in [0, 1]. 0: "without convolution", and
            then there are no parameters. α = β = 0 is :class:`Vanilla`.
        kernel_size: side of the kernel, odd; 3 in the papers, 1 and 5 in ablations.
        conv_init: ``"fan_in"``: truncated normal of variance 1/(heads · k²), as in the
            released program; ``"identity"``: every head starts as itself.

    Raises:
        ConfigError: a value is out of its range.

    Source: Wang et al., Evolving Attention with Residual Convolutions, ICML 2021,
    Eq. 4. The authors' released programs swap the two names; here they are the paper's.
    """

    alpha: float
    beta: float
    kernel_size: int = 3
    conv_init: str = "fan_in"

    def __post_init__(self) -> None:
        check_in_core(self)

    @property
    def equals_vanilla(self) -> bool:
        """Whether these options compute vanilla attention: α = β = 0."""
        return self.alpha == self.beta == 0
