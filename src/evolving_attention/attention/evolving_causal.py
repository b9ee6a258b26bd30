"""Evolving Attention for decoders: the convolution sees no later target token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evolving_attention.attention.base import (
    Evolve,
    all_zero,
    register,
    without_false,
)


@register("evolving_causal")
@dataclass(frozen=True)
class EvolvingCausal(Evolve):
    """Like :class:`Evolving`, with a shifted convolution; rows are target tokens.

        I = α L' + (1 − α) S
        L = β ReLU(Z) + (1 − β) I,   Z: Conv(I) + b, moved by the shift

    Cells that the shift leaves empty have Z = 0. With r = (kernel_size − 1) / 2:

    * ``"diagonal"``, for a decoder's self-attention: r down and r right, and of the
      k × k taps only those whose column is not after their row (6 of 9);
    * ``"query"``, for cross-attention: r down, all taps;
    * ``"key_literal"``, for cross-attention as in the paper's text: r right. It reads
      r later target tokens, so generating models cannot use it.

    Args:
        alpha: α, weight of the previous map (skip), in [0, 1]. The paper's decoders
            have α = 0; then the first layer has its convolution, too. With α > 0 the
            first layer has L = S. A list has one number per layer of the decoder.
        beta: β, weight of the convolution, in [0, 1], or a list. 0: no convolution.
        kernel_size: side of the kernel, odd; 1 has no shift.
        shift: see above.
        learnable: whether each layer learns its own α and β, as in :class:`Evolving`.

    Raises:
        ConfigError: a value is out of range, the length of a list is not the decoder's
            number of layers, or a weight of 1 is to be learned.

    Source: Wang et al., Evolving Attention with Residual Convolutions, ICML 2021,
    Section 3.5. The text shifts the convolution of cross-attention "to the right",
    which preserves the order of target tokens only if they are the columns; in this
    package they are the rows.
    """

    alpha: float | list[float]
    beta: float | list[float]
    kernel_size: int = 3
    shift: str = "diagonal"
    learnable: bool = False

    @property
    def equals_vanilla(self) -> bool:
        """Whether these options compute vanilla attention: α = β = 0."""
        return all_zero(self.alpha, self.beta)

    def to_dict(self) -> dict[str, Any]:
        """Returns the form in config.json; ``learnable`` is present only if True."""
        return without_false(super().to_dict(), "learnable")
