"""Scope kinds: which cells of a map exist, and how values are gathered from them."""

from __future__ import annotations

from dataclasses import dataclass

from evolving_attention.attention.base import Scope, check_in_core, register

__all__ = ["Dense", "Edges", "Window"]


@register("dense")
@dataclass(frozen=True)
class Dense(Scope):
    """Every query sees every key of its own sequence.

    Args:
        causal: only keys up to the query's own place. Cells beyond do not exist: they
            are 0 in the maps that evolve, and get no gradient.

    Raises:
        ConfigError: ``causal`` is not True or False.

    Source: Vaswani et al., Attention Is All You Need, NeurIPS 2017.
    """

    causal: bool = False

    def __post_init__(self) -> None:
        check_in_core(self)


@register("window")
@dataclass(frozen=True)
class Window(Scope):
    """Convolutional self-attention: keys near the query, of neighbouring heads too.

        y_i^h = softmax over (g, j) of (q_i^h · k_j^g / √d) v_j^g,
        |j − i| ≤ (size − 1) / 2,  |g − h| ≤ (heads − 1) / 2

    One softmax runs over all positions and heads of a window. Positions beyond the ends
    of a sequence do not exist. Maps have ``size · heads`` cells for each query, and no
    work is done for others. There are no new parameters. The slots beside it: scores
    that are products (``Dot``, ``Multiplicative``), no relative positions, convolutions
    of size 1; self attention of an encoder.

    Args:
        size: positions in a window, odd; the paper's best is 11. Windows of 2n − 1 or
            more show a sequence of n tokens whole.
        heads: heads in a window, odd, at most those of the layer; 1: 1D-CSAN, 3: the
            paper's 2D-CSAN.
        head_border: what stands for the missing neighbours of the first and the last
            head: ``"clip"`` nothing, ``"wrap"`` the heads of the other end, ``"clamp"``
            the last head once more; ``"author"`` is the released program, whose keys
            wrap and whose values clamp.

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

    def __post_init__(self) -> None:
        check_in_core(self)


@register("edges")
@dataclass(frozen=True)
class Edges(Scope):
    """A node of a graph sees the nodes that an edge comes from, and no others.

        y_i = softmax over edges (j → i) of S_ij · v_j

    Maps have a row for each edge and a column for each head; there is nothing of size
    nodes². It needs inputs with a graph: :class:`~evolving_attention.GATConfig`, or
    ``F.Packing(…, edges=…)``. A node without edges gets 0. The slots beside it: any
    scores, no relative positions, convolutions of size 1, so that the order of the
    nodes does not matter.

    Raises:
        ConfigError: when a model is called: its inputs have no graph.

    Example:
        >>> import evolving_attention as ea
        >>> spec = ea.attention.Spec(
        ...     score=ea.attention.Concatenative(), scope=ea.attention.Edges()
        ... )

    Source: Veličković et al., Graph Attention Networks, ICLR 2018.
    """
