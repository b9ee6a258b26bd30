"""The table of operations between tokens, flat maps and dense maps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from support.cases import Case
from support.map_cases import (
    LENGTHS,
    MANY,
    WIDE_LENGTHS,
    Lengths,
    join_maps,
    join_tokens,
)
from support.op_cases import ops

# One query with many keys, and many queries with few: every distance is clipped.
LONG = Lengths(2, (1, 40), (70, 3))
ALL = [*LENGTHS, LONG, *WIDE_LENGTHS, MANY]


def clipped(n: Lengths, furthest: int) -> list[np.ndarray]:
    """Returns D + clip(j - i, -D, D) for the cells of each sequence."""
    return [
        furthest
        + np.clip(np.arange(k) - np.arange(q)[:, None], -furthest, furthest).astype(int)
        for q, k in zip(n.queries, n.n_k, strict=True)
    ]


def distances() -> Iterator[Case]:
    for n in ALL:
        rows = sum(n.queries) * n.heads
        # All keys at one distance, some distances clipped, none clipped.
        for furthest in (2, n.longest) if n.wide else (0, 1, 2, n.longest):
            width = 2 * furthest + 1

            def cells(x, n=n, furthest=furthest, width=width):
                tokens = n.split_tokens(x.reshape(-1, n.heads * width), n.queries)
                places = clipped(n, furthest)
                return join_maps(
                    [
                        np.take_along_axis(
                            r, np.broadcast_to(p, (n.heads, *p.shape)), 2
                        )
                        for r, p in zip(tokens, places, strict=True)
                    ]
                )

            def sums(x, n=n, furthest=furthest, width=width):
                parts = []
                for m, p in zip(n.split_maps(x), clipped(n, furthest), strict=True):
                    steps = [np.where(p == e, m, 0).sum(2) for e in range(width)]
                    parts.append(np.stack(steps, 2))
                return join_tokens(parts, n.heads * width).reshape(-1, width)

            yield Case(
                "relative_cells",
                f"{n}_D{furthest}",
                ((rows, width),),
                lambda x, n=n: ops().relative_cells(x, n.packing),
                cells,
                wide=n.wide,
                terms=n.longest,
                cancels=1.0,
            )
            yield Case(
                "relative_sums",
                f"{n}_D{furthest}",
                ((n.elements,),),
                lambda x, n=n, d=furthest: ops().relative_sums(x, n.packing, d),
                sums,
                wide=n.wide,
                terms=n.longest,
                cancels=1.0,
            )


def columns(lengths: tuple[int, ...], room: int, gaps: bool) -> list[np.ndarray]:
    """Returns the columns, out of ``room``, of the tokens of each sequence."""
    rng = np.random.default_rng(room)
    return [
        np.sort(rng.choice(room, size, replace=False)) if gaps else np.arange(size)
        for size in lengths
    ]


def padding() -> Iterator[Case]:
    for n in ALL:
        longest = max((0, *n.queries)), max((0, *n.n_k))
        for name, more in (("", None), ("_roomy", False), ("_gaps", True)):
            room = longest if more is None else (longest[0] + 2, longest[1] + 3)
            sides = [
                columns(lengths, size, bool(more))
                for lengths, size in zip((n.queries, n.n_k), room, strict=True)
            ]
            given = [np.concatenate([*c, []]).astype(int) for c in sides]
            given = given if more else [None, None]
            shape = (len(n.queries), n.heads, *room)

            def unpack(x, n=n, sides=sides, shape=shape):
                dense = np.zeros(shape)
                for b, m in enumerate(n.split_maps(x)):
                    dense[b][:, sides[0][b][:, None], sides[1][b]] = m
                return dense

            def pack(dense, sides=sides):
                return join_maps(
                    [
                        maps[:, q[:, None], k]
                        for maps, q, k in zip(dense, *sides, strict=True)
                    ]
                )

            yield Case(
                "unpack_maps",
                f"{n}{name}",
                ((n.elements,),),
                lambda x, n=n, room=room, more=more, given=given: ops().unpack_maps(
                    x, n.packing, None if more is None else room, *given
                ),
                unpack,
                wide=n.wide,
            )
            yield Case(
                "pack_maps",
                f"{n}{name}",
                (shape,),
                lambda x, n=n, given=given: ops().pack_maps(x, n.packing, *given),
                pack,
                wide=n.wide,
            )


def pairs() -> Iterator[Case]:
    for n in ALL:
        for width in (17, 64) if n.wide and n is not MANY else (1, 3, 33):
            shapes = tuple(
                (sum(lengths), n.heads * width) for lengths in (n.queries, n.n_k)
            )

            def oracle(u, v, n=n):
                return join_maps(
                    [
                        a[:, :, None] + b[:, None]
                        for a, b in zip(
                            n.split_tokens(u, n.queries),
                            n.split_tokens(v, n.n_k),
                            strict=True,
                        )
                    ]
                )

            yield Case(
                "pair_sum",
                f"{n}_c{width}",
                shapes,
                lambda u, v, n=n: ops().pair_sum(u, v, n.packing),
                oracle,
                wide=n.wide,
                terms=n.longest,
                cancels=1.0,
            )


def cell_cases() -> list[Case]:
    """Returns every case of an op between tokens and maps, or between map layouts."""
    makers = (distances, padding, pairs)
    return [case for maker in makers for case in maker()]
