"""RealFormer: maps accumulate over the layers."""

from __future__ import annotations

from dataclasses import dataclass

from evolving_attention.attention.base import Evolve, register


@register("residual")
@dataclass(frozen=True)
class Residual(Evolve):
    """L_i = L_{i-1} + S_i; the sum is carried.

    Args:
        running_mean: whether layer l of a chain, from 0, passes L / (l + 1) to the
            softmax, while the sum itself is carried. None: only in models with more
            than 24 layers, as in the paper.

    Source: He et al., RealFormer: Transformer Likes Residual Attention, 2021.
    """

    running_mean: bool | None = None
