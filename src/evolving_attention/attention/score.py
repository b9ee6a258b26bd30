"""Score kinds: how a query is compared with a key."""

from __future__ import annotations

from dataclasses import dataclass

from evolving_attention.attention.base import Score, register


@register("dot")
@dataclass(frozen=True)
class Dot(Score):
    """S_ij = scale · q_i · k_j.

    Args:
        scale: the factor; None: 1/√d, with d the width of a head. T5 uses 1.

    Raises:
        ConfigError: the scale is not a finite number.

    Source: Vaswani et al., Attention Is All You Need, NeurIPS 2017.
    """

    scale: float | None = None


@register("multiplicative")
@dataclass(frozen=True)
class Multiplicative(Score):
    """S_ij = q_iᵀ W k_j / √d, with a matrix W [d, d] for each head.

    Parameters: ``score.weight`` [heads, d, d].

    Source: Wang et al., TPAMI 2023, Eq. 11 (A_m); Luong et al., EMNLP 2015 ("general").
    """


@register("additive")
@dataclass(frozen=True)
class Additive(Score):
    """S_ij = w · tanh(k_j + q_i), with a vector w [d] for each head.

    W₃ and W₄ of Eq. 11 are the layer's own projections of keys and queries. Every cell
    has d intermediate values, so memory grows with heads × n² × d.

    Parameters: ``score.weight`` [heads, d].

    Source: Wang et al., TPAMI 2023, Eq. 11 (A_a); Bahdanau et al., ICLR 2015.
    """


@register("concatenative")
@dataclass(frozen=True)
class Concatenative(Score):
    """S_ij = LeakyReLU(a · [q_i; k_j]), with a vector a [2d] for each head.

    Args:
        negative_slope: slope of LeakyReLU, in [0, 1].

    Parameters: ``score.weight`` [2, heads, d], one half for queries, one for keys.

    Raises:
        ConfigError: the slope is out of range.

    Source: Veličković et al., Graph Attention Networks, ICLR 2018, Eq. 3. Eq. 11 (A_c)
    of Wang et al., TPAMI 2023, has tanh and another vector instead of LeakyReLU.
    """

    negative_slope: float = 0.2
