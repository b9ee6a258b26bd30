"""Evolving Attention as in the authors' released program for time series."""

from __future__ import annotations

from dataclasses import dataclass

from evolving_attention.attention.base import (
    Evolve,
    all_zero,
    register,
)


@register("evolving_released")
@dataclass(frozen=True)
class EvolvingReleased(Evolve):
    """Maps evolve as in the released program, from the third layer on.

    With the previous map L' and this layer's scores S:

        M = dropout(LeakyReLU(L')),   I = α M + (1 − α) S
        L = β LeakyReLU(Conv(I) + b) + (1 − β) I

    The first two layers have L = S. :class:`Evolving` follows the paper; this class
    follows its program. ``released_behaviour=True`` of ``ea.EADCTransformerConfig``
    selects it and also sets the dropout (0 in other models).

    Args:
        alpha: α, weight of the previous map (skip), in [0, 1]; the program calls it
            ``beta``. A list has one number per layer; the first two are ignored.
        beta: β, weight of the convolution, in [0, 1], or a list; the program calls it
            ``alpha``.
        kernel_size: side of the kernel, odd.

    Raises:
        ConfigError: a value is out of range.

    Source: the program released with Wang et al., Convolution-enhanced Evolving
    Attention Networks, TPAMI 2023; its LeakyReLU has slope 0.01.
    """

    alpha: float | list[float] = 0.1
    beta: float | list[float] = 0.1
    kernel_size: int = 3

    @property
    def equals_vanilla(self) -> bool:
        """Whether these options compute vanilla attention: α = β = 0."""
        return all_zero(self.alpha, self.beta)
