"""Bias kinds: terms added to the scores before they evolve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evolving_attention.attention.base import Bias, register


@register("none")
@dataclass(frozen=True)
class NoBias(Bias):
    """Adds nothing."""

    def to_core(self) -> Any:
        """Returns None: the core's slot stays empty."""
        return None


@register("relative")
@dataclass(frozen=True)
class RelativePositions(Bias):
    """S_ij += q_i · r_{j−i} / √d, one table r for all heads of a layer.

    Args:
        max_distance: D; distances outside −D … D are clipped to the nearest end.
        values: whether the context also gets Σ_j P_ij r'_{j−i}, with r' a second
            table.

    Parameters: ``relative_positions`` [2D + 1, d], and with ``values``
    ``relative_values`` [2D + 1, d_v].

    Raises:
        ConfigError: ``max_distance`` is out of range.

    Source: Shaw et al., Self-Attention with Relative Position Representations, NAACL
    2018; inside the chain of evolving maps as in Wang et al., ICML 2021, Eq. 2.
    """

    max_distance: int
    values: bool = False
