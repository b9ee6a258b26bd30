"""The table of operations on the maps of windows (kernels/window_layout.h)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from reference.csan import BORDERS, neighbour

from support.cases import Case
from support.op_cases import ops

Cell = tuple[int, int, int, int]  # number, query row, key row, value row


@dataclass(frozen=True)
class Windows:
    """Sequences of given lengths, and the window of their maps."""

    heads: int
    lengths: tuple[int, ...]
    size: int
    span: int = 1
    border: str = "clip"
    wide: bool = False

    def __str__(self) -> str:
        text = "_".join(map(str, self.lengths))
        if len(self.lengths) > 20:
            text = f"{len(self.lengths)}_sequences"
        return f"window{self.size}x{self.span}_{self.border}_h{self.heads}_{text}"

    @cached_property
    def packing(self):
        from evolving_attention import _core

        return _core.Packing(
            self.heads,
            np.cumsum([0, *self.lengths]),
            window=self.size,
            window_heads=self.span,
            head_border=self.border,
        )

    @property
    def tokens(self) -> int:
        return sum(self.lengths)

    @cached_property
    def widths(self) -> list[int]:
        return [min(self.size, 2 * n - 1) if n else 0 for n in self.lengths]

    @property
    def elements(self) -> int:
        pairs = zip(self.lengths, self.widths, strict=True)
        return self.heads * self.span * sum(n * w for n, w in pairs)

    @property
    def terms(self) -> int:
        return max([1, *self.widths]) * self.span * 2

    @cached_property
    def cells(self) -> list[list[Cell]]:
        """Returns each map row's existing cells: (number, query, key, value row)."""
        rows, first, at = [], 0, 0
        for n, width in zip(self.lengths, self.widths, strict=True):
            for h in range(self.heads):
                for i in range(n):
                    row = []
                    for a in range(self.span):
                        for o in range(width):
                            j, shift = i + o - width // 2, a - self.span // 2
                            found = [
                                neighbour(h, shift, self.heads, self.border, values)
                                for values in (False, True)
                            ]
                            if 0 <= j < n and None not in found:
                                key, value = (
                                    (first + j) * self.heads + g for g in found
                                )
                                query = (first + i) * self.heads + h
                                row.append((at, query, key, value))
                            at += 1
                    rows.append(row)
            first += n
        return rows

    def rows(self, x: np.ndarray) -> np.ndarray:
        """Reshapes to [tokens * heads, d]."""
        return x.reshape(self.tokens * self.heads, x.shape[1] // self.heads)


SMALL = [
    Windows(1, (1,), 3),
    Windows(2, (7, 1, 4), 3),
    Windows(2, (3, 0, 5), 11),
    *(Windows(3, (5, 2), 3, 3, border) for border in BORDERS),
    *(Windows(5, (4, 1), 5, 5, border) for border in BORDERS),
    Windows(4, (3,), 1, 3),
    Windows(2, (), 3),
    Windows(2, (0,), 5),
]
WIDE = [
    Windows(4, (17, 69, 1, 33), 11, wide=True),
    *(Windows(4, (40, 9, 69), 11, 3, border, wide=True) for border in BORDERS),
    Windows(3, (33, 20), 69, 3, wide=True),
    Windows(2, (2, 1, 0, 3, 5) * 60, 3, wide=True),
]


def products() -> Iterator[Case]:
    for n in [*SMALL, *WIDE]:
        for d in (17, 64) if n.wide else (1, 3):
            shape = (n.tokens, n.heads * d)

            def scores(q, k, n=n):
                out, q, k = np.zeros(n.elements), n.rows(q), n.rows(k)
                for row in n.cells:
                    for at, query, key, _ in row:
                        out[at] = 0.5 * q[query] @ k[key]
                return out

            def context(p, v, n=n):
                out, v = (
                    np.zeros((n.tokens * n.heads, v.shape[1] // n.heads)),
                    n.rows(v),
                )
                for row in n.cells:
                    for at, query, _, value in row:
                        out[query] += p[at] * v[value]
                return out.reshape(n.tokens, n.heads * v.shape[1])

            yield Case(
                "attention_scores",
                f"{n}_d{d}",
                (shape, shape),
                lambda q, k, n=n: ops().attention_scores(q, k, n.packing, 0.5),
                None if n.wide else scores,
                wide=n.wide,
                terms=max(d, n.terms),
            )
            yield Case(
                "attention_context",
                f"{n}_d{d}",
                ((n.elements,), shape),
                lambda p, v, n=n: ops().attention_context(p, v, n.packing),
                None if n.wide else context,
                wide=n.wide,
                terms=max(d, n.terms),
            )


def softmax() -> Iterator[Case]:
    for n in [*SMALL, *WIDE]:

        def oracle(x, n=n):
            out = np.zeros(n.elements)
            for row in filter(None, n.cells):
                at = [cell[0] for cell in row]
                each = np.exp(0.7 * (x[at] - x[at].max()))
                out[at] = each / each.sum()
            return out

        yield Case(
            "map_softmax",
            str(n),
            ((n.elements,),),
            lambda x, n=n: ops().map_softmax(x, n.packing, 0.7),
            None if n.wide else oracle,
            wide=n.wide,
            terms=n.terms,
        )


def padding() -> Iterator[Case]:
    for n in [*SMALL, *WIDE]:
        for gaps in (False, True):
            room = max([0, *n.lengths]) + 2 * gaps
            rng = np.random.default_rng(room)
            columns = [
                np.sort(rng.choice(room, m, replace=False)) if gaps else np.arange(m)
                for m in n.lengths
            ]
            flat = np.concatenate([*columns, []]).astype(int)
            given = ((room, room), flat, flat) if gaps else (None,)
            dense_shape = (len(n.lengths), n.heads, room, n.span * room)

            def places(n=n, flat=flat, room=room):
                """Returns flat cell and dense map element of each existing cell."""
                sequence = np.repeat(np.arange(len(n.lengths)), n.lengths)
                first = np.cumsum([0, *n.lengths])
                for row in n.cells:
                    for at, query, key, _ in row:
                        (i, h), j = divmod(query, n.heads), key // n.heads
                        b = sequence[i]
                        before = (
                            n.heads
                            * n.span
                            * sum(
                                m * w
                                for m, w in zip(n.lengths[:b], n.widths, strict=False)
                            )
                        )
                        column = (at - before) % (n.span * n.widths[b])
                        a = column // n.widths[b]
                        assert first[b] <= j < first[b + 1]
                        yield at, (b, h, flat[i], a * room + flat[j])

            def unpack(x, places=places, shape=dense_shape):
                dense = np.zeros(shape)
                for at, place in places():
                    dense[place] = x[at]
                return dense

            def pack(dense, n=n, places=places):
                out = np.zeros(n.elements)
                for at, place in places():
                    out[at] = dense[place]
                return out

            name = f"{n}{'_gaps' * gaps}"
            yield Case(
                "unpack_maps",
                name,
                ((n.elements,),),
                lambda x, n=n, g=given: ops().unpack_maps(x, n.packing, *g),
                None if n.wide else unpack,
                wide=n.wide,
            )
            yield Case(
                "pack_maps",
                name,
                (dense_shape,),
                lambda x, n=n, g=given: ops().pack_maps(x, n.packing, *g[1:]),
                None if n.wide else pack,
                wide=n.wide,
            )


def evolving() -> Iterator[Case]:
    """Yields convolutions and steps, cell by cell.

    Cells of heads that are clipped are read and written as 0; others that do not exist
    may hold anything.
    """
    c = (0.3, 0.7, 0.18, 0.42, 0.4)
    for n in (SMALL[1], SMALL[3], SMALL[4]):
        exists = np.zeros(n.elements)
        exists[[at for row in n.cells for at, *_ in row]] = 1.0
        clips = n.span > 1 and n.border == "clip"
        there = exists if clips else 1.0
        mixing = ((n.heads, n.heads, 1, 1), (n.heads,))

        def kept(y, exists=exists, clips=clips):
            from evolving_attention import _core

            keep = _core.Tensor(exists, dtype=y.dtype, device=y.device)
            return y if clips else y * keep

        def convolved(x, w, b, n=n, exists=exists, there=there):
            parts, at = [], 0
            for length, width in zip(n.lengths, n.widths, strict=True):
                size = n.heads * length * width * n.span
                own = (there * x)[at : at + size].reshape(n.heads, -1)
                parts.append((w[:, :, 0, 0] @ own + b[:, None]).ravel())
                at += size
            return exists * np.concatenate(parts)

        def evolved(m, s, w, b, exists=exists, convolved=convolved):
            grown = np.maximum(convolved(c[0] * m + c[1] * s, w, b), 0.0)
            return exists * (c[2] * m + c[3] * s) + c[4] * grown

        yield Case(
            "map_conv",
            f"{n}_k1",
            ((n.elements,), *mixing),
            lambda x, w, b, n=n, kept=kept: kept(ops().map_conv(x, w, b, n.packing)),
            convolved,
            terms=n.elements,
        )
        yield Case(
            "evolve",
            f"{n}_k1",
            ((n.elements,), (n.elements,), *mixing),
            lambda m, s, w, b, n=n, kept=kept: kept(
                ops().evolve(m, s, w, b, c, n.packing)
            ),
            evolved,
            terms=n.elements,
            cancels=1.0,
            roundings=2,
        )


def window_cases() -> list[Case]:
    """Returns every case of an op on the maps of windows."""
    makers = (products, softmax, padding, evolving)
    return [case for maker in makers for case in maker()]
