"""conv2d at its edges: single images, kept weights, unwanted gradients."""

from __future__ import annotations

import numpy as np
import pytest
from support.cases import as_float64, forced, round_to

import evolving_attention as ea
from evolving_attention import _core
from evolving_attention import functional as F

DTYPES = ("float32", "bfloat16", "float64")


def draw(dtype: str, images: int = 3, side: int = 14) -> list[ea.Tensor]:
    rng = np.random.default_rng(0)
    shapes = (images, 24, side, side), (40, 24, 3, 3), (40,)
    return [
        ea.Tensor(round_to(rng.standard_normal(s), dtype), dtype=dtype) for s in shapes
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("side", [14, 64])  # whole images, and images split into bands
def test_an_image_alone_has_the_bits_it_has_in_a_batch(
    side: int, kernel: int, stride: int, dtype: str
):
    x, weight, bias = draw(dtype, side=side)
    weight = ea.Tensor(as_float64(weight)[:, :, :kernel, :kernel], dtype=dtype)
    taps = {"stride": stride, "padding": kernel // 2}
    whole = as_float64(F.conv2d(x, weight, bias, **taps))
    for n in range(3):
        alone = F.conv2d(x[n : n + 1], weight, bias, **taps)
        np.testing.assert_array_equal(as_float64(alone)[0], whole[n])


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_kept_weight_is_forgotten_when_it_changes(dtype: str, kernel: int):
    rng = np.random.default_rng(1)
    x = ea.Tensor(round_to(rng.standard_normal((2, 24, 9, 9)), dtype), dtype=dtype)
    weight = ea.Tensor(rng.standard_normal((40, 24, kernel, kernel)), dtype=dtype)

    def convolved(w: ea.Tensor) -> np.ndarray:
        with ea.no_grad(), forced():
            return as_float64(F.conv2d(x, w, padding=kernel // 2))

    first, again = convolved(weight), convolved(weight)
    np.testing.assert_array_equal(first, again)
    changed = rng.standard_normal(weight.shape)
    weight.copy_(changed)
    fresh = ea.Tensor(changed, dtype=dtype)
    np.testing.assert_array_equal(convolved(weight), convolved(fresh))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_kept_weight_that_bands_read_in_several_layouts(dtype: str):
    """oneDNN's blocks of channels depend on the height: low bands may need others."""
    rng = np.random.default_rng(2)
    x = ea.Tensor(rng.standard_normal((1, 256, 56, 56)), dtype=dtype)
    values = round_to(rng.standard_normal((512, 256, 1, 1)), dtype)
    weight = ea.Tensor(values, dtype=dtype)
    with ea.no_grad(), forced():
        want = as_float64(F.conv2d(x, ea.Tensor(values, dtype=dtype), stride=2))
        for _ in range(3):  # creates both layouts, then reuses them
            y = as_float64(F.conv2d(x, weight, stride=2))
            np.testing.assert_array_equal(y, want)


def test_bands_of_rows_meet():
    """A large image, which is split into bands, gives the results of its parts."""
    x, weight, bias = draw("float32", images=1, side=80)
    y = as_float64(F.conv2d(x, weight, bias, padding=1))
    part = as_float64(F.conv2d(x[:, :, 20:60], weight, bias))
    np.testing.assert_allclose(y[:, :, 21:59, 1:-1], part, rtol=0, atol=1e-4)
    assert np.abs(y[:, :, 0]).max() > 0


@pytest.mark.parametrize("kernel", [1, 3])
def test_gradients_that_nobody_wants_are_not_made(kernel: int):
    x, weight, bias = draw("float32")
    weight = ea.Tensor(np.asarray(weight)[:, :, :kernel, :kernel], requires_grad=True)
    _core.ops.sum(F.conv2d(x, weight, bias)).backward()
    assert weight.grad is not None
    assert x.grad is None
    assert bias.grad is None
