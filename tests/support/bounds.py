"""Bounds on the difference of two correct computations of the same result."""

from __future__ import annotations

import math

import numpy as np

from support.cases import as_float64

# The bounds. Two correct kernels differ
# - in the last bits of each element: by RELATIVE of its value. float32: the stated
#   error of the vector functions, a few units of 2^-24; bfloat16: one step, 2^-7;
# - in the order of sums: an error of 2^-24 per term that grows like a random walk, so
#   by STEP sqrt(terms) of the largest element (or of the terms, if a case says that
#   they cancel). Sums run in float32 for bfloat16 too.
RELATIVE = {"float32": 2.0**-21, "bfloat16": 2.0**-7, "float64": 2.0**-50}
STEP = {"float32": 4 * 2.0**-24, "bfloat16": 4 * 2.0**-24, "float64": 4 * 2.0**-53}
# Effect on a backward pass of a forward result that was rounded to the neighbour.
DOWNSTREAM = {"float32": 2.0**-20, "bfloat16": 2.0**-6, "float64": 2.0**-49}


def assert_agrees(
    got: np.ndarray,
    want: np.ndarray,
    *,
    dtype: str,
    terms: int,
    downstream: bool = False,
    cancels: float = 0.0,
    roundings: int = 1,
    at: str,
) -> None:
    """Checks that ``got`` has the type and shape of ``want`` and is within the bounds.

    Args:
        dtype: type of the tensors in the computation.
        terms: number of terms of the longest sum in the computation.
        downstream: whether the arrays follow from results that differed already.
        cancels: size of terms that may cancel to almost nothing.
        roundings: how often a value was stored in the computation.
        at: name of the comparison in messages.
    """
    assert got.dtype == want.dtype, at
    assert got.shape == want.shape, at
    got, want = as_float64(got), as_float64(want)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want), err_msg=at)
    infinite = np.isinf(want)
    np.testing.assert_array_equal(got[infinite], want[infinite], err_msg=at)
    scale = np.max(np.abs(want), initial=cancels, where=np.isfinite(want))
    relative = RELATIVE[dtype] * roundings
    bound = STEP[dtype] * math.sqrt(terms) * scale + relative * np.abs(want)
    if downstream:
        bound = bound + DOWNSTREAM[dtype] * scale
    error = np.where(np.isfinite(want), np.abs(got - want), 0.0)
    over = error > bound
    if over.any():
        worst = np.unravel_index(np.argmax(error - bound), error.shape)
        raise AssertionError(
            f"{at}: {over.sum()} of {over.size} elements differ; at {worst} got "
            f"{got[worst]}, ref {want[worst]}, bound {bound[worst]:.3g}"
        )
