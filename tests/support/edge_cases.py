"""The table of operations along the edges of a graph (kernels/edge_layout.h)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from support.cases import Case
from support.op_cases import ops


@dataclass(frozen=True)
class EdgeLists:
    """A random graph with isolated nodes, loops and repeated edges."""

    heads: int
    queries: int
    keys: int
    edges: int
    wide: bool = False

    def __str__(self) -> str:
        return f"edges{self.edges}_h{self.heads}_{self.queries}_by_{self.keys}"

    @cached_property
    def drawn(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the query and the key of each edge, sorted by query."""
        rng = np.random.default_rng(self.edges)
        if self.edges == 0:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        # With several nodes, the first is a hub and the last has no edge.
        most = max(1, self.queries - 1)
        entered = rng.integers(0, most, self.edges) * (rng.random(self.edges) < 0.8)
        return np.sort(entered), rng.integers(0, self.keys, self.edges)

    @cached_property
    def packing(self):
        from evolving_attention import _core

        entered, left = self.drawn
        starts = np.searchsorted(entered, np.arange(self.queries + 1))
        edges = _core.Edges(starts, left, self.keys)
        return _core.Packing(self.heads, [0, self.queries], [0, self.keys], edges=edges)

    @property
    def elements(self) -> int:
        return self.edges * self.heads

    @property
    def terms(self) -> int:
        counts = [np.bincount(one, minlength=1).max() for one in self.drawn]
        return int(max(1, *counts)) * 2


SMALL = [
    EdgeLists(1, 1, 1, 1),
    EdgeLists(1, 1, 1, 4),
    EdgeLists(2, 5, 5, 9),
    EdgeLists(3, 4, 7, 11),
    EdgeLists(2, 6, 2, 5),
    EdgeLists(2, 3, 3, 0),
]
WIDE = [
    EdgeLists(8, 301, 301, 2_003, wide=True),
    EdgeLists(1, 67, 517, 1_500, wide=True),
    EdgeLists(17, 40, 33, 700, wide=True),
]


def rows(x: np.ndarray, heads: int) -> np.ndarray:
    """Reshapes to [tokens, heads, d]."""
    return x.reshape(len(x), heads, x.shape[1] // heads if len(x) else 1)


def edges() -> Iterator[Case]:
    for n in [*SMALL, *WIDE]:
        entered, left = n.drawn
        for d in (8, 69) if n.wide else (1, 3):
            yield Case(
                "attention_scores",
                f"{n}_d{d}",
                ((n.queries, n.heads * d), (n.keys, n.heads * d)),
                lambda q, k, n=n: ops().attention_scores(q, k, n.packing, 0.7),
                lambda q, k, n=n, i=entered, j=left: (
                    0.7 * (rows(q, n.heads)[i] * rows(k, n.heads)[j]).sum(2)
                ).reshape(-1),
                wide=n.wide,
                terms=max(n.terms, d),
                cancels=float(max(n.terms, d)),
            )

            def context(p, v, n=n, i=entered, j=left):
                out = np.zeros((n.queries, *rows(v, n.heads).shape[1:]))
                np.add.at(out, i, p.reshape(n.edges, n.heads, 1) * rows(v, n.heads)[j])
                return out.reshape(n.queries, -1)

            yield Case(
                "attention_context",
                f"{n}_d{d}",
                ((n.elements,), (n.keys, n.heads * d)),
                lambda p, v, n=n: ops().attention_context(p, v, n.packing),
                context,
                wide=n.wide,
                terms=max(n.terms, d),
                cancels=float(max(n.terms, d)),
            )
            yield Case(
                "pair_sum",
                f"{n}_c{d}",
                ((n.queries, n.heads * d), (n.keys, n.heads * d)),
                lambda u, v, n=n: ops().pair_sum(u, v, n.packing),
                lambda u, v, i=entered, j=left: (u[i] + v[j]).reshape(-1),
                wide=n.wide,
                terms=n.terms,
                cancels=float(n.terms),
            )


def softmaxes() -> Iterator[Case]:
    for n in [*SMALL, *WIDE]:
        for factor in (1.0, 0.4):

            def oracle(x, n=n, factor=factor, i=n.drawn[0]):
                e = np.exp(factor * x.reshape(n.edges, n.heads))
                sums = np.zeros((n.queries, n.heads))
                np.add.at(sums, i, e)
                return (e / sums[i]).reshape(-1)

            yield Case(
                "map_softmax",
                f"{n}_scale{factor}",
                ((n.elements,),),
                lambda x, n=n, f=factor: ops().map_softmax(x, n.packing, f),
                oracle,
                wide=n.wide,
                terms=n.terms,
                cancels=1.0,
            )


def steps() -> Iterator[Case]:
    for n in [*SMALL, *WIDE]:
        h = n.heads

        def mixed(x, w, b, n=n):
            y = x.reshape(n.edges, n.heads) @ w[:, :, 0, 0].T + b
            return y.reshape(-1)

        yield Case(
            "map_conv",
            f"{n}",
            ((n.elements,), (h, h, 1, 1), (h,)),
            lambda x, w, b, n=n: ops().map_conv(x, w, b, n.packing),
            mixed,
            wide=n.wide,
            terms=max(n.edges, h),
            cancels=float(max(1, n.edges)),
        )
        c = (0.3, 0.7, 0.3 * 0.6, 0.7 * 0.6, 0.4)
        yield Case(
            "evolve",
            f"{n}",
            ((n.elements,), (n.elements,), (h, h, 1, 1), (h,)),
            lambda m, s, w, b, n=n, c=c: ops().evolve(m, s, w, b, c, n.packing),
            lambda m, s, w, b, c=c, mixed=mixed: (
                c[2] * m
                + c[3] * s
                + c[4] * np.maximum(mixed(c[0] * m + c[1] * s, w, b), 0)
            ),
            wide=n.wide,
            terms=max(n.edges, h),
            cancels=float(max(1, n.edges)),
            roundings=4,
        )


def edge_cases() -> list[Case]:
    """Returns every case of an op along edges."""
    return [case for maker in (edges, softmaxes, steps) for case in maker()]
