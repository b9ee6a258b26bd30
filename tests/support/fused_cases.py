"""The table of fused attention: every closed form on the packed lengths of maps."""

from __future__ import annotations

from collections.abc import Iterator

from support.cases import Case
from support.map_cases import CLOSED_FORMS, LENGTHS, Lengths
from support.op_cases import ops

FORMS = {"vanilla": (0.0, 0.0, 0.0, 1.0, 0.0), **CLOSED_FORMS}
WIDE_LENGTHS = [
    Lengths(4, (17, 69, 1, 33, 128), wide=True),
    Lengths(3, (17, 0, 69), (69, 5, 33), wide=True),
    Lengths(12, (11, 9, 7, 14, 8, 23, 3, 12), wide=True),
]
SCALE, SOFTMAX_SCALE = 0.3, 0.7


def inputs(n: Lengths, c: tuple[float, ...], d: int, size: int):
    """Shapes of q, k, v and of what else the form takes."""
    width = n.heads * d
    shapes = [(sum(n.queries), width), (sum(n.n_k), width), (sum(n.n_k), width)]
    if c[0] or c[2]:
        shapes.append((n.elements,))
    if c[4]:
        shapes += [(n.heads, n.heads, size, size), (n.heads,)]
    return tuple(shapes)


def split(c: tuple[float, ...], rest: tuple):
    """previous, weight, bias of the inputs behind q, k, v."""
    previous = rest[0] if c[0] or c[2] else None
    weight, bias = rest[-2:] if c[4] else (None, None)
    return previous, weight, bias


def fused_cases() -> list[Case]:
    """Context and carry as one vector, without and with dropout."""
    return list(_fused())


def _fused() -> Iterator[Case]:
    for n in LENGTHS + WIDE_LENGTHS:
        for kind, c in FORMS.items():
            for size in (1, 3, 5) if kind == "evolving" else (3,):
                d = 17 if n.wide else 3

                def call(q, k, v, *rest, c=c, n=n):
                    y, carry = ops().fused_attention(
                        q, k, v, *split(c, rest), c, n.packing,
                        SCALE, SOFTMAX_SCALE, 0.2,
                    )  # fmt: skip
                    parts = [ops().reshape(x, [x.size]) for x in (y, carry)]
                    return ops().concat(parts, 0)

                yield Case(
                    "fused_attention",
                    f"{kind}_{n}_k{size}",
                    inputs(n, c, d, size),
                    call,
                    wide=n.wide,
                    terms=max(
                        d, n.longest, n.elements // n.heads, n.heads * size * size
                    ),
                    cancels=1.0,
                )
