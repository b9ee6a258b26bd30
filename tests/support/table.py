"""All cases of all ops, for the gradient, agreement and determinism tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from support.cases import Case
from support.cell_cases import cell_cases
from support.edge_cases import edge_cases
from support.fused_cases import fused_cases
from support.image_cases import image_cases
from support.map_cases import map_cases
from support.op_cases import dense_cases
from support.row_cases import row_cases
from support.selection_cases import selection_cases
from support.sequence_cases import sequence_cases
from support.window_cases import window_cases

CASES = [
    *dense_cases(),
    *selection_cases(),
    *row_cases(),
    *map_cases(),
    *cell_cases(),
    *edge_cases(),
    *fused_cases(),
    *sequence_cases(),
    *window_cases(),
    *image_cases(),
]

TOGETHER = 40


def by_op(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """Groups cases by op, at most ``TOGETHER`` in a group: one group per test.

    A test has an overhead of milliseconds, most cases take less than one.
    """
    of_op: dict[str, list[Case]] = {}
    for case in cases:
        of_op.setdefault(case.op, []).append(case)
    return {
        f"{op}-{first // TOGETHER}": mine[first : first + TOGETHER]
        for op, mine in of_op.items()
        for first in range(0, len(mine), TOGETHER)
    }


@contextlib.contextmanager
def named(case: Case) -> Iterator[None]:
    """Adds the case's name to its error."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{case}: {error}") from error
