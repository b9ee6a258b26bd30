"""Without gradients, rows of a product have the same bits whatever the other rows."""

from __future__ import annotations

import numpy as np
import pytest
from support.cases import round_to

import evolving_attention as ea
from evolving_attention import _core

ROWS = 70
SIZES = [(1, 40), (3, 5), (30, 32), (65, 1100), (200, 75)]  # columns, depth


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("size", SIZES, ids=lambda s: "x".join(map(str, s)))
def test_rows_do_not_change_one_another(size: tuple[int, int], dtype: str, kept: bool):
    ea.set_fast_path("packed_weights", kept)
    n, k = size
    rng = np.random.default_rng(n + k)
    x, w, b = (
        round_to(rng.standard_normal(s), dtype) for s in ((ROWS, k), (n, k), (n,))
    )
    weight, bias = (_core.Tensor(a, dtype=dtype) for a in (w, b))

    def product(rows: np.ndarray) -> np.ndarray:
        with ea.no_grad():
            y = _core.ops.linear(_core.Tensor(rows, dtype=dtype), weight, bias)
        return np.array(np.asarray(y.to("float64")))

    whole = product(x)
    exact = x.astype(np.float64) @ w.astype(np.float64).T + b.astype(np.float64)
    rtol = 2.0**-8 if dtype == "bfloat16" else 1e-6
    np.testing.assert_allclose(whole, exact, rtol=rtol, atol=4e-4)
    for rows in (1, 2, 3, 4, 5, 15, 17, 49, 69):
        assert np.array_equal(product(x[:rows]), whole[:rows]), rows
        assert np.array_equal(product(x[-rows:]), whole[-rows:]), rows
