"""Attention over cached rows: every implementation, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from support.cases import as_float64, forced, round_to

from evolving_attention import _core
from evolving_attention.errors import DTypeError, InputError, ShapeError

cached_attention = _core.cached_attention
NAMES = [n for k, n, _ in _core.kernel_entries() if k == "cached_attention"]
# A result is stored once in its type, and in bfloat16 so are the probabilities.
STEP = {"float32": 2.0**-24, "bfloat16": 2.0**-8, "float64": 2.0**-53}
# Float64 is the business of the reference.
EACH = [(n, t) for n in NAMES for t in STEP if n == "ref" or t != "float64"]
LENGTHS = [[1], [3, 1, 17], [40] * 9]


def drawn(lengths, heads, d, dtype):
    """Queries, and a cache with rows that nobody reads, in no order; two share some."""
    rng = np.random.default_rng(len(lengths))
    n, cached = len(lengths), sum(lengths) + 5
    arrays = [rng.standard_normal((rows, heads * d)) for rows in (n, cached, cached)]
    rows = rng.permutation(cached)[: sum(lengths)]
    rows[-1] = rows[0]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return [round_to(a, dtype) for a in arrays], rows.tolist(), offsets.tolist()


def spelled(q, k, v, rows, offsets, heads, scale):
    """The formula of kernels/cached_attention.h."""
    out = np.empty(q.shape)
    for b in range(len(q)):
        mine = rows[offsets[b] : offsets[b + 1]]
        for h in np.split(np.arange(q.shape[1]), heads):
            s = scale * k[np.ix_(mine, h)] @ q[b, h]
            p = np.exp(s - s.max())
            out[b, h] = p / p.sum() @ v[np.ix_(mine, h)]
    return out


@pytest.mark.parametrize(("name", "dtype"), EACH)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize(("heads", "d"), [(1, 3), (2, 64), (3, 73)])
def test_is_the_formula(name, dtype, lengths, heads, d):
    arrays, rows, offsets = drawn(lengths, heads, d, dtype)
    expected = spelled(
        *(np.asarray(a, np.float64) for a in arrays), rows, offsets, heads, 0.3
    )
    tensors = [_core.Tensor(a, dtype=dtype) for a in arrays]
    with forced(("cached_attention", name)):
        found = cached_attention(*tensors, rows, offsets, heads, 0.3)
    # Sums of d and of as many terms as there are rows, in the type of sums.
    terms = 4 if dtype == "bfloat16" else d + max(lengths)
    bound = terms * STEP[dtype]
    np.testing.assert_allclose(as_float64(found), expected, rtol=0, atol=bound)


@pytest.mark.parametrize("name", NAMES)
def test_a_nan_stays_in_its_sequence(name):
    arrays, rows, offsets = drawn([2, 2], 1, 4, "float32")
    rows = [0, 1, 2, 3]
    arrays[1][1] = np.nan
    tensors = [_core.Tensor(round_to(a, "float32")) for a in arrays]
    with forced(("cached_attention", name)):
        found = as_float64(cached_attention(*tensors, rows, offsets, 1, 1.0))
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"rows": [0, 4]}, InputError, "row 4 of a cache of 4"),
        ({"rows": [0, -1]}, InputError, "row -1 of a cache of 4"),
        ({"offsets": [0, 0, 2]}, ShapeError, "sequence 0 has no rows"),
        ({"offsets": [0, 1]}, ShapeError, "2 offsets do not fit 2 sequences"),
        ({"heads": 3}, ShapeError, "a multiple of 3 heads"),
        ({"dtype": "float64"}, DTypeError, "expected one type"),
    ],
)
def test_what_does_not_fit_is_refused(change, error, text):
    settings = {"rows": [0, 1], "offsets": [0, 1, 2], "heads": 1, "dtype": "float32"}
    settings |= change
    q = _core.Tensor(np.ones((2, 4)), dtype=settings.pop("dtype"))
    k = _core.Tensor(np.ones((4, 4), np.float32))
    with pytest.raises(error, match=text):
        cached_attention(q, k, k, *settings.values(), 1.0)
