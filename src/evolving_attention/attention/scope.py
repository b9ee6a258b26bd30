"""Scope kinds: which cells of a map exist, and how values are gathered from them."""

from __future__ import annotations

from dataclasses import dataclass

from evolving_attention.attention.base import Scope, register


@register("dense")
@dataclass(frozen=True)
class Dense(Scope):
    """Every query sees every key of its own sequence.

    Args:
        causal: whether a query sees only keys up to its own position. Later cells do
            not exist: they are 0 in the maps that evolve, and get no gradient.

    Raises:
        ConfigError: ``causal`` is not True or False.

    Source: Vaswani et al., Attention Is All You Need, NeurIPS 2017.
    """

    causal: bool = False


@register("window")
@dataclass(frozen=True)
class Window(Scope):
    """Convolutional self-attention: keys near the query, also in neighbouring heads.

        y_i^h = softmax over (g, j) of (q_i^h · k_j^g / √d) v_j^g,
        |j − i| ≤ (size − 1) / 2,  |g − h| ≤ (heads − 1) / 2

    One softmax runs over all positions and heads of a window. Positions outside the
    sequence do not exist. Maps have ``size · heads`` cells for each query; no other
    cell is computed. There are no new parameters. Allowed in the other slots: product
    scores (``Dot``, ``Multiplicative``), no relative positions, convolutions of size 1.
    Only for the self-attention of an encoder.

    Args:
        size: positions in a window, odd; the paper's best is 11. A window of 2n − 1 or
            more covers a whole sequence of n tokens.
        heads: heads in a window, odd, at most those of the layer; 1: 1D-CSAN, 3: the
            paper's 2D-CSAN.
        head_border: what replaces the missing neighbours of the first and the last
            head: ``"clip"``: nothing; ``"wrap"``: the heads at the other end;
            ``"clamp"``: the last head again; ``"author"``: as in the released program,
            keys wrap and values clamp.

    Raises:
        ConfigError: an option is even, out of range or unknown; when a model is built:
            more heads than the layer has.

    Example:
        >>> import evolving_attention as ea
        >>> local = ea.attention.Spec(scope=ea.attention.Window(size=11, heads=3))
        >>> config = ea.TransformerConfig(
        ...     vocab_size=8000, attention=[local] * 3 + ["vanilla"] * 3
        ... )

    Source: Yang et al., Convolutional Self-Attention Networks, NAACL 2019, Eq. 4–9.
    """

    size: int = 11
    heads: int = 1
    head_border: str = "clip"


@register("edges")
@dataclass(frozen=True)
class Edges(Scope):
    """A node of a graph sees only the nodes from which it has an edge.

        y_i = softmax over edges (j → i) of S_ij · v_j

    Maps have a row per edge and a column per head; nothing has size nodes². The inputs
    need a graph: :class:`~evolving_attention.GATConfig`, or ``F.Packing(…, edges=…)``.
    A node without edges gets 0. Allowed in the other slots: any score, no relative
    positions, convolutions of size 1, so that the order of the nodes does not matter.

    Raises:
        ConfigError: when it is set in a config whose model's inputs have no graph.

    Example:
        >>> import evolving_attention as ea
        >>> spec = ea.attention.Spec(
        ...     score=ea.attention.Concatenative(), scope=ea.attention.Edges()
        ... )

    Source: Veličković et al., Graph Attention Networks, ICLR 2018.
    """
