"""Cases of operations that select elements, and of powers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from support.cases import Case
from support.op_cases import SHAPES, WIDE, label, ops

# max and min of no elements are refused: the reduced axis never has size 0.
AXES = [
    ((1,), 0),
    ((5, 7), 0),
    ((5, 7), 1),
    ((17, 3), None),
    ((2, 3, 5), 1),
    ((2, 3, 5), -1),
    ((0, 4), 1),
    ((1, 69), None),
    ((3, 0, 2), 2),
    ((3, 1, 5), 0),
]
TRIPLES = [  # shapes of the condition, a and b
    ((5, 7), (5, 7), (5, 7)),
    ((5, 1), (7,), (5, 7)),
    ((3,), (), (2, 3)),
    ((1,), (1,), (1,)),
    ((2, 1, 5), (3, 1), (2, 3, 5)),
    ((0, 4), (4,), (0, 4)),
    ((17, 3), (17, 1), (1, 3)),
    ((1, 69), (69,), ()),
]
WIDE_TRIPLE = ((517, 1), (517, 259), (259,))


def _condition(shape: tuple[int, ...]) -> np.ndarray:
    count = int(np.prod(shape))
    return (np.arange(count) % 3 != 1).reshape(shape).astype(np.uint8)


def _powers() -> Iterator[Case]:
    for shape in SHAPES + WIDE[:1]:
        for exponent in (2, 3, -1, 0.5, 2.3):
            yield Case(
                "pow",
                f"{exponent}_{label(shape)}",
                (shape,),
                lambda x, p=exponent: ops().pow(x, p),
                lambda x, p=exponent: x**p,
                positive=True,
                roundings=4,
                wide=shape in WIDE,
            )
        yield Case(
            "pow",
            f"tensor_{label(shape)}",
            (shape, shape),
            lambda x, p: ops().pow(x, p),
            lambda x, p: x**p,
            positive=True,
            roundings=8,
            wide=shape in WIDE,
        )


def selection_cases() -> Iterator[Case]:
    """Yields cases of abs, clip, max, min, pow and where."""
    for shape in SHAPES + WIDE[:1]:
        wide = shape in WIDE
        yield Case(
            "abs", label(shape), (shape,), lambda x: ops().abs(x), np.abs, wide=wide
        )
        yield Case(
            "clip",
            label(shape),
            (shape,),
            lambda x: ops().clip(x, -0.5, 0.75),
            lambda x: np.clip(x, -0.5, 0.75),
            wide=wide,
        )
    for shape, axis in [*AXES, (WIDE[0], 1)]:
        for name in ("max", "min"):
            yield Case(
                name,
                f"{label(shape)}_{axis}",
                (shape,),
                lambda x, name=name, axis=axis: getattr(ops(), name)(x, axis),
                lambda x, name=name, axis=axis: getattr(x, name)(axis),
                wide=shape in WIDE,
            )
    for triple in [*TRIPLES, WIDE_TRIPLE]:
        condition = _condition(triple[0])
        yield Case(
            "where",
            label(*triple),
            triple[1:],
            lambda a, b, c=condition: ops().where(c, a, b),
            lambda a, b, c=condition: np.where(c, a, b),
            wide=triple is WIDE_TRIPLE,
        )
    yield from _powers()
