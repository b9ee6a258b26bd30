"""Attention over cached rows: every implementation, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from support.cases import as_float64, forced, round_to

from evolving_attention import _core
from evolving_attention.errors import ConfigError, DTypeError, InputError, ShapeError

cached_attention = _core.cached_attention
NAMES = [n for k, n, _ in _core.kernel_entries() if k == "cached_attention"]
# A result is rounded once to its type; in bfloat16 the probabilities are too.
STEP = {"float32": 2.0**-24, "bfloat16": 2.0**-8, "float64": 2.0**-53}
# Only the reference computes in float64.
EACH = [(n, t) for n in NAMES for t in STEP if n == "ref" or t != "float64"]
LENGTHS = [[1], [3, 1, 17], [40] * 9]


def drawn(lengths, heads, d, dtype):
    """Returns queries, and a shuffled cache with unread rows; two share a row."""
    rng = np.random.default_rng(len(lengths))
    n, cached = len(lengths), sum(lengths) + 5
    arrays = [rng.standard_normal((rows, heads * d)) for rows in (n, cached, cached)]
    rows = rng.permutation(cached)[: sum(lengths)]
    rows[-1] = rows[0]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return [round_to(a, dtype) for a in arrays], rows.tolist(), offsets.tolist()


def spelled(q, k, v, rows, offsets, heads, scale):
    """Computes the formula of kernels/cached_attention.h."""
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
        found, scores = cached_attention(*tensors, rows, offsets, heads, 0.3)
    # Sums of d terms and of one term per row, in the accumulation type.
    terms = 4 if dtype == "bfloat16" else d + max(lengths)
    bound = terms * STEP[dtype]
    np.testing.assert_allclose(as_float64(found), expected, rtol=0, atol=bound)
    assert scores.shape == (heads * sum(lengths),)


@pytest.mark.parametrize("name", NAMES)
def test_a_nan_stays_in_its_sequence(name):
    arrays, rows, offsets = drawn([2, 2], 1, 4, "float32")
    rows = [0, 1, 2, 3]
    arrays[1][1] = np.nan
    tensors = [_core.Tensor(round_to(a, "float32")) for a in arrays]
    with forced(("cached_attention", name)):
        found, _ = cached_attention(*tensors, rows, offsets, 1, 1.0)
    found = as_float64(found)
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()


# --- the evolving step ----------------------------------------------------------------

C = (0.3, 0.7, 0.2, 0.5, 0.4)  # a, b, p, s, w
KINDS = {  # kernel side, shift down and right, whether only earlier keys exist
    "decoder": (3, (1, 1), True),
    "decoder, 5 x 5": (5, (2, 2), True),
    "moved down alone": (3, (1, 0), True),
    "across": (3, (1, 0), False),
    "one cell": (1, (0, 0), True),
}


def evolved(maps, scores, weight, bias, shift, exists):
    """Computes the logits of whole maps [heads, T, n] cell by cell."""
    a, b, p, s, w = C
    heads, tokens, keys = scores.shape
    maps, scores = maps * exists, scores * exists
    reach = weight.shape[-1] // 2
    mixed = np.zeros((heads, tokens + 2 * reach, keys + 2 * reach))
    mixed[:, reach : reach + tokens, reach : reach + keys] = a * maps + b * scores
    z = np.zeros(scores.shape)
    for i in range(shift[0], tokens):
        for j in range(shift[1], keys):
            y, x = i - shift[0], j - shift[1]
            window = mixed[:, y : y + 2 * reach + 1, x : x + 2 * reach + 1]
            z[:, i, j] = bias + np.einsum("ocuv,cuv->o", weight, window)
    return p * maps + s * scores + w * np.maximum(z, 0)


@pytest.mark.parametrize(("name", "dtype"), EACH)
@pytest.mark.parametrize("kind", KINDS)
def test_evolving_steps_are_the_rows_of_whole_maps(name, dtype, kind):
    side, shift, causal = KINDS[kind]
    heads, d, tokens, keys = 5, 3, 19, 19
    rng = np.random.default_rng(side)
    q, k, v = (
        round_to(rng.standard_normal((tokens, heads * d)), dtype) for _ in range(3)
    )
    before = round_to(rng.standard_normal((heads, tokens, keys)), dtype)
    weight = rng.standard_normal((heads, heads, side, side)) / side
    if shift[1]:
        weight *= np.tril(np.ones((side, side)))
    weight, bias = round_to(weight, dtype), round_to(rng.standard_normal(heads), dtype)
    exists = np.tril(np.ones((tokens, keys))) if causal else np.ones((tokens, keys))

    def wide(x):
        return np.asarray(x, np.float64)

    by_head = [wide(x).reshape(-1, heads, d).transpose(1, 0, 2) for x in (q, k, v)]
    scores = 0.3 * by_head[0] @ by_head[1].transpose(0, 2, 1)
    logits = evolved(wide(before), scores, wide(weight), wide(bias), shift, exists)
    p = np.where(exists, np.exp(1.5 * logits), 0.0)
    mixed = (p / p.sum(-1, keepdims=True) @ by_head[2]).transpose(1, 0, 2)

    place = rng.permutation(2 * keys)[:keys]  # each key's row in the cache
    cache = np.full((2, 2 * keys, heads * d), np.nan)
    cache[0, place], cache[1, place] = k, v
    k, v = (_core.Tensor(round_to(x, dtype), dtype=dtype) for x in cache)
    # Two sequences for one target: each has its own rows of maps.
    maps = _core.Tensor(np.full((2 * side, heads, 2 * keys + 9), np.nan), dtype=dtype)
    earlier = [[-1] * (side - 1), [-1] * (side - 1)]
    terms = 6 if dtype == "bfloat16" else 60
    bound = terms * STEP[dtype]
    for i in range(tokens):
        n = i + 1 if causal else keys
        numbers = [i % side * 2, i % side * 2 + 1]
        listed = [[*e, new] for e, new in zip(earlier, numbers, strict=True)]
        earlier = [one[1:] for one in listed]
        flat = np.concatenate([before[:, i, :n].ravel()] * 2)
        with forced(("cached_attention", name)):
            found, carry = cached_attention(
                _core.Tensor(np.stack([q[i], q[i]]), dtype=dtype),
                k,
                v,
                [*place[:n].tolist()] * 2,
                [0, n, 2 * n],
                heads,
                0.3,
                C,
                1.5,
                shift,
                _core.Tensor(flat, dtype=dtype),
                _core.Tensor(weight, dtype=dtype),
                _core.Tensor(bias, dtype=dtype),
                maps,
                [*listed[0], *listed[1]],
            )
        found, carry = as_float64(found), as_float64(carry)
        assert np.array_equal(found[0], found[1], equal_nan=True)
        assert np.array_equal(*np.split(carry, 2), equal_nan=True)
        np.testing.assert_allclose(
            carry[: heads * n].reshape(heads, n),
            logits[:, i, :n],
            rtol=bound,
            atol=bound,
        )
        np.testing.assert_allclose(found[0], mixed[i].ravel(), rtol=0, atol=bound)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"previous": np.ones(3)}, ShapeError, "previous has 3 cells"),
        ({"maps": None}, ShapeError, "are missing"),
        ({"weight": np.ones((1, 1, 5, 5))}, ShapeError, "a side of 3"),
        ({"maps": np.ones((3, 1, 7))}, ShapeError, "1, 8 or more"),
        ({"map_rows": [-1, 0]}, ShapeError, "expected 3 for each of 1"),
        ({"map_rows": [-1, 0, 3]}, InputError, "row 3 of a map of 3"),
        ({"map_rows": [0, 1, -1]}, InputError, "no row for its new map"),
        ({"shift": (1, -3)}, ConfigError, r"shift \(1, -3\) goes up or left"),
        ({"shift": (-1, 1)}, ConfigError, r"shift \(-1, 1\) goes up or left"),
    ],
)
def test_what_does_not_fit_an_evolving_step_is_refused(change, error, text):
    given = {
        "shift": (1, 1),
        "previous": np.ones(2),
        "weight": np.ones((1, 1, 3, 3)),
        "bias": np.ones(1),
        "maps": np.ones((3, 1, 8)),
        "map_rows": [-1, 0, 1],
    }
    given = {
        name: _core.Tensor(x.astype(np.float32)) if isinstance(x, np.ndarray) else x
        for name, x in (given | change).items()
    }
    q = _core.Tensor(np.ones((1, 4), np.float32))
    k = _core.Tensor(np.ones((4, 4), np.float32))
    with pytest.raises(error, match=text):
        cached_attention(q, k, k, [0, 1], [0, 2], 1, 1.0, C, 1.0, **given)


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
