"""The table of fused attention: every closed form on the packed lengths of maps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from support.cases import Case
from support.map_cases import (
    CLOSED_FORMS,
    FAR,
    LENGTHS,
    MANY,
    SHIFTED,
    SPARSE,
    TALL,
    WIDE_SPARSE,
    Lengths,
    name_of,
    shifts_of,
    sizes_of,
)
from support.op_cases import ops

FORMS = {"vanilla": (0.0, 0.0, 0.0, 1.0, 0.0), **CLOSED_FORMS}
WIDE_LENGTHS = [
    Lengths(4, (17, 69, 1, 33, 128), wide=True),
    Lengths(3, (17, 0, 69), (69, 5, 33), wide=True),
    Lengths(12, (11, 9, 7, 14, 8, 23, 3, 12), wide=True),
]
# Many blocks of keys and of queries. Inputs are positive, so that no convolution is so
# near 0 that the order of its sums decides the ReLU's result.
LONG = Lengths(2, (67, 1024, 512), (1024, 5, 33), wide=True)
SCALE, SOFTMAX_SCALE, DROPOUT = 0.3, 0.7, 0.2


def inputs(n: Lengths, c: tuple[float, ...], d: int, size: int, e: int = 0):
    """Returns the shapes of q, k, v and of the form's other inputs."""
    width, keys = n.heads * d, sum(n.n_k)
    shapes = [(sum(n.queries), width), (keys, width), (keys, n.heads * (e or d))]
    if c[0] or c[2]:
        shapes.append((n.elements,))
    if c[4]:
        shapes += [(n.heads, n.heads, size, size), (n.heads,)]
    return tuple(shapes)


def split(c: tuple[float, ...], rest: tuple):
    """Returns previous, weight and bias among the inputs after q, k, v."""
    previous = rest[0] if c[0] or c[2] else None
    weight, bias = rest[-2:] if c[4] else (None, None)
    return previous, weight, bias


def context_of_carry(n: Lengths, e: int, biased: bool):
    """Returns ``follows``: ref's context of a result's own carry, and ref's carry.

    The logits are rounded to the tensors' type before the softmax, and another order of
    sums rounds a few of them to the neighbour. That moves the context by up to
    2^-8 t |L V|, more than the order of its own sums does. With M = carry, p = 1 and
    s = 0 the logits are exactly those of the result.
    """
    tokens = sum(n.queries) * n.heads * e

    def follows(inputs: list, got: np.ndarray, want: np.ndarray) -> np.ndarray:
        from evolving_attention import _core

        carry = _core.Tensor(got[tokens:], dtype=inputs[0].dtype)
        y, _ = ops().fused_attention(
            *inputs[biased : biased + 3], carry, None, None,
            (0.0, 0.0, 1.0, 0.0, 0.0), n.packing, SCALE, SOFTMAX_SCALE, DROPOUT,
        )  # fmt: skip
        return np.concatenate([np.asarray(y).ravel(), want[tokens:]])

    return follows


def fused_cases() -> list[Case]:
    """Returns cases of context and carry as one vector, without and with dropout."""
    return list(_fused())


def _fused() -> Iterator[Case]:
    few = [MANY, FAR[0], LONG]
    for n in [*LENGTHS, *SPARSE, *WIDE_LENGTHS, *WIDE_SPARSE, TALL, *few]:
        for kind in FORMS:
            if n in few and kind not in ("vanilla", "evolving"):
                continue
            if n in WIDE_SPARSE and kind not in ("vanilla", "residual", "evolving"):
                continue
            for size in (3,) if n is LONG else sizes_of(n, kind):
                yield fused(n, kind, size)
    # Values wider than keys, and narrower: a GPU also uses a block of 64 columns.
    for n, values in [(LENGTHS[0], 5), (LENGTHS[0], 70), (SPARSE[0], 2), (TALL, 20)]:
        for kind in ("vanilla", "residual", "evolving"):
            yield fused(n, kind, sizes_of(n, kind)[0], values=values)
    for n, values in [(WIDE_LENGTHS[0], 6), (WIDE_SPARSE[0], 40)]:
        for kind in ("vanilla", "evolving"):
            yield fused(n, kind, 3, values=values)
    for n in SHIFTED:
        for kind in ("vanilla", "residual", "evolving", "no_skip"):
            size = FAR[1] if n is FAR[0] else 3
            yield fused(n, kind, size, biased=True)
            for shift in shifts_of(n) if FORMS[kind][4] else ():
                yield fused(n, kind, size, shift, biased=kind == "no_skip")


def fused(
    n: Lengths,
    kind: str,
    size: int,
    shift: tuple[int, int] = (0, 0),
    biased=False,
    values: int | None = None,
) -> Case:
    """Returns the case of one call: its context and carry.

    ``biased``: with a map added to the scores; ``values``: features of a head's
    values, if they differ from those of its keys.
    """
    c = FORMS[kind]
    d = 80 if n is TALL else 17 if n.wide and n is not LONG else 3
    e = values or d

    def call(*args):
        added = args[0] if biased else None
        q, k, v, *rest = args[1:] if biased else args
        y, carry = ops().fused_attention(
            q, k, v, *split(c, tuple(rest)), c, n.on(q),
            SCALE, SOFTMAX_SCALE, DROPOUT, shift=shift, score_bias=added,
        )  # fmt: skip
        parts = [ops().reshape(x, [x.size]) for x in (y, carry)]
        return ops().concat(parts, 0)

    return Case(
        "fused_attention",
        f"{kind}_{n}_k{size}"
        + name_of(shift)
        + "_biased" * biased
        + (f"_v{values}" if values else ""),
        ((n.elements,),) * biased + inputs(n, c, d, size, e),
        call,
        wide=n.wide,
        terms=max(d, e, n.longest, n.elements // n.heads, n.heads * size * size),
        cancels=1.0,
        follows=context_of_carry(n, e, biased),
        positive=n is LONG,
    )
