"""Scopes other than dense, written in Python: a window, and the edges of a graph.

They prove that every part of the attention layer is replaceable: neither scope has its
own kernel, and both are composed of public functions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import evolving_attention as ea
from evolving_attention import functional as F


class Cells(ea.attention.CustomScope):
    """A scope given by lists of cells, which :meth:`lists` defines."""

    def lists(self, length: int) -> list[list[int]]:
        """Returns the keys that each query of a sequence sees."""
        raise NotImplementedError

    def rows(self, length: int) -> int:
        """Returns the number of map rows of such a sequence."""
        raise NotImplementedError

    def maps(self, tokens):
        heads, offsets = tokens.num_heads, np.asarray(tokens.offsets)
        rows, columns = [0], [0]
        for n in np.diff(offsets):
            cells = sum(map(len, self.lists(int(n))))
            rows.append(rows[-1] + self.rows(int(n)))
            columns.append(columns[-1] + cells // max(1, self.rows(int(n))))
        return ea.functional.Packing(heads, rows, key_offsets=columns)

    def _cells(self, context):
        """Returns each cell's query row and key row (token times heads plus head)."""
        queries, keys = [], []
        heads = context.num_heads
        for begin, end in zip(
            context.tokens.offsets, context.tokens.offsets[1:], strict=False
        ):
            lists = self.lists(end - begin)
            for head in range(heads):
                for i, seen in enumerate(lists):
                    queries += [(begin + i) * heads + head] * len(seen)
                    keys += [(begin + j) * heads + head for j in seen]
        return np.array(queries, np.int64), np.array(keys, np.int64)

    def _by_query(self, context):
        """Returns each query and head's cells [tokens * heads, most keys]; -1: none."""
        queries, _ = self._cells(context)
        total = context.tokens.offsets[-1] * context.num_heads
        cells = [np.flatnonzero(queries == row) for row in range(total)]
        index = np.full((total, max([len(c) for c in cells], default=0)), -1, np.int64)
        for row, found in enumerate(cells):
            index[row, : len(found)] = found
        return index

    def dot(self, q, k, scale, context):
        queries, keys = self._cells(context)
        a, b = (
            F.gather_rows(x.reshape(x.shape[0] * context.num_heads, -1), rows)
            for x, rows in ((q, queries), (k, keys))
        )
        return F.scale(F.sum(a * b, 1), scale)

    def pair_sum(self, u, v, context):
        queries, keys = self._cells(context)
        a, b = (
            F.gather_rows(x.reshape(x.shape[0] * context.num_heads, -1), rows)
            for x, rows in ((u, queries), (v, keys))
        )
        return (a + b).reshape(-1)

    def normalise(self, logits, scale, context):
        queries, _ = self._cells(context)
        each = F.exp(F.scale(logits, scale)).reshape(-1, 1)
        sums = F.sum(F.gather_rows(each, self._by_query(context)), 1)
        return (each / F.gather_rows(sums, queries)).reshape(*logits.shape)

    def mix(self, probabilities, v, context):
        _, keys = self._cells(context)
        heads, width = context.num_heads, v.shape[1] // context.num_heads
        values = F.gather_rows(v.reshape(v.shape[0] * heads, width), keys)
        parts = values * probabilities.reshape(-1, 1)
        mixed = F.sum(F.gather_rows(parts, self._by_query(context)), 1)
        return mixed.reshape(v.shape[0], heads * width)


@ea.attention.register("toy_window")
@dataclass(frozen=True)
class Window(Cells):
    """Three keys around each query, fewer in shorter sequences, without repetition."""

    size: int = 3

    def lists(self, length):
        size = min(self.size, length)
        first = [min(max(i - size // 2, 0), length - size) for i in range(length)]
        return [list(range(begin, begin + size)) for begin in first]

    def rows(self, length):
        return length


@ea.attention.register("toy_edges")
@dataclass(frozen=True)
class Edges(Cells):
    """A graph: each node sees itself and the nodes two and three before it."""

    def lists(self, length):
        return [[j for j in (i, i - 2, i - 3) if j >= 0] for i in range(length)]

    def rows(self, length):
        return 1 if length else 0
