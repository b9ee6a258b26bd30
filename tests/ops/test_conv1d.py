"""conv1d at its edges: nothing leaks from one sequence into another."""

from __future__ import annotations

import numpy as np
import pytest
from support.cases import as_float64, forced, kernel_calls, round_to

from evolving_attention import _core

LENGTHS = (29, 1, 40, 7)
CHANNELS, OUT, KERNEL = 48, 33, 3
DTYPES = ("float32", "bfloat16", "float64")


def draw(dtype: str, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = ((sum(LENGTHS), CHANNELS), (OUT, CHANNELS, KERNEL), (OUT,))
    return [round_to(rng.standard_normal(shape), dtype) for shape in shapes]


def packing(*lengths: int):
    return _core.Packing(1, np.cumsum([0, *lengths]).tolist())


def convolve(arrays, dtype: str, *lengths: int, **settings) -> np.ndarray:
    tensors = [_core.Tensor(a, dtype=dtype) for a in arrays]
    return as_float64(_core.ops.conv1d(*tensors, packing(*lengths), **settings))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dilation", [1, 4, 64])
def test_a_sequence_alone_has_the_bits_it_has_in_a_batch(dilation, causal, dtype):
    x, weight, bias = draw(dtype)
    settings = {"dilation": dilation, "causal": causal}
    whole = convolve((x, weight, bias), dtype, *LENGTHS, **settings)
    begin = 0
    for n in LENGTHS:
        rows = x[begin : begin + n]
        alone = convolve((rows, weight, bias), dtype, n, **settings)
        np.testing.assert_array_equal(alone, whole[begin : begin + n])
        begin += n


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_causal_row_sees_no_later_one_and_no_other_sequence(dtype: str):
    x, weight, bias = draw(dtype)
    before = convolve((x, weight, bias), dtype, *LENGTHS, dilation=2, causal=True)
    at = LENGTHS[0] + LENGTHS[1] + 10  # inside the third sequence
    spoiled = x.copy()
    spoiled[at] = np.nan
    after = convolve((spoiled, weight, bias), dtype, *LENGTHS, dilation=2, causal=True)
    seen = np.isnan(after).all(1)
    assert seen.nonzero()[0].tolist() == [at, at + 2, at + 4]
    np.testing.assert_array_equal(after[~seen], before[~seen])


def test_taps_beyond_every_sequence_change_nothing():
    x, weight, bias = draw("float32")
    y = convolve((x, weight, bias), "float32", *LENGTHS, dilation=1000, causal=True)
    last = weight[:, :, -1:]
    expected = convolve((x, last, bias), "float32", *LENGTHS)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("lengths", [LENGTHS, (3000, 5, 1001), (2,) * 40])
@pytest.mark.parametrize("channels", [(48, 96), (33, 17)])
def test_bfloat16_pairs_and_wide_products_agree(channels, lengths):
    """Values and gradients agree; they are equal where such products do not exist."""
    rng = np.random.default_rng(1)
    tokens, (width, out) = sum(lengths), channels
    shapes = ((tokens, width), (out, width, KERNEL), (out,), (tokens, out))
    arrays = [round_to(rng.standard_normal(s), "bfloat16") for s in shapes]

    def run(on: bool) -> list[np.ndarray]:
        _core.set_fast_path("bfloat16_pairs", on)
        inputs = [
            _core.Tensor(a, dtype="bfloat16", requires_grad=True) for a in arrays[:3]
        ]
        where = packing(*lengths)
        y = _core.ops.conv1d(*inputs, where, dilation=3, causal=True)
        y.backward(_core.Tensor(arrays[3], dtype="bfloat16"))
        return [as_float64(t) for t in (y, *(t.grad for t in inputs))]

    before = kernel_calls("conv1d_backward", "ref")
    with forced():  # the default choice of kernels
        found = run(True), run(False)
    for pairs, wide in zip(*found, strict=True):
        # Two roundings to bfloat16, of sums that differ in the last bits of float32.
        bound = 2.0**-7 * np.abs(wide) + 2.0**-18 * np.abs(wide).max()
        assert (np.abs(pairs - wide) <= bound).all()
    assert kernel_calls("conv1d_backward", "ref") == before


def test_gradients_that_nobody_wants_are_not_made():
    x, weight, bias = (_core.Tensor(a) for a in draw("float32"))
    wanted = _core.Tensor(np.asarray(weight), requires_grad=True)
    y = _core.ops.conv1d(x, wanted, bias, packing(*LENGTHS))
    _core.ops.sum(y).backward()
    assert wanted.grad is not None
    assert x.grad is None
    assert bias.grad is None
