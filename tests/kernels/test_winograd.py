"""Winograd 3 x 3 convolutions: when they are used, their accuracy, their bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from support.cases import as_float64, forced, kernel_calls, round_to
from support.processor import float32_and_pairs, needs_pairs

import evolving_attention as ea
from evolving_attention import _core
from evolving_attention import functional as F

# Largest error relative to the root mean square of the result: sums in float32; in
# bfloat16 sums of 16 terms with factors rounded to 8 bits.
BOUND = {"float32": 1e-5, "bfloat16": 0.03}


@pytest.fixture(autouse=True)
def _threads_restored() -> Iterator[None]:
    before = _core.get_num_threads()
    yield
    _core.set_num_threads(before)


def calls() -> int:
    return kernel_calls("conv2d_forward", "winograd")


def draw(dtype: str, *shape: int, seed: int = 0) -> ea.Tensor:
    values = np.random.default_rng(seed).standard_normal(shape)
    return ea.Tensor(round_to(values, dtype), dtype=dtype)


def convolved(*inputs: ea.Tensor, fast: bool = True, **taps: int) -> np.ndarray:
    _core.set_fast_path("winograd", fast)
    with ea.no_grad(), forced():
        return as_float64(F.conv2d(*inputs, **taps))


# (images, in, height, width, out, padding): whole tiles; overhanging tiles, also by one
# row and column; channels that fill no vector, panel or slab; no padding, and more
# padding than a tile reads; several blocks of depth; jobs of many tiles.
SIZES = [
    (1, 32, 8, 8, 64, 1),
    (2, 48, 7, 9, 45, 1),
    (3, 34, 5, 4, 90, 1),
    (2, 32, 6, 7, 130, 0),
    (1, 36, 3, 5, 43, 3),
    (1, 1030, 4, 5, 50, 1),
    (3, 64, 31, 30, 96, 1),
]


@float32_and_pairs
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("size", SIZES, ids=lambda s: "x".join(map(str, s)))
def test_it_is_the_convolution(size: tuple[int, ...], bias: bool, dtype: str):
    images, inside, height, width, out, padding = size
    inputs = [
        draw(dtype, images, inside, height, width),
        draw(dtype, out, inside, 3, 3, seed=1),
    ]
    if bias:
        inputs.append(draw(dtype, out, seed=2))
    before = calls()
    got = convolved(*inputs, padding=padding)
    assert calls() == before + 1
    want = convolved(*(t.to("float64") for t in inputs), padding=padding)
    error = np.abs(got - want).max() / np.sqrt((want**2).mean())
    assert error <= BOUND[dtype], error


@pytest.mark.parametrize(("fast", "bound"), [(True, 0.005), (False, 0.002)])
@needs_pairs
def test_the_error_of_bfloat16(fast: bool, bound: float):
    """The error relative to the root mean square has docs/numerics.md's bounds."""
    inputs = draw("bfloat16", 2, 128, 14, 14), draw("bfloat16", 128, 128, 3, 3, seed=1)
    got = convolved(*inputs, fast=fast, padding=1)
    want = convolved(*(t.to("float64") for t in inputs), padding=1)
    error = np.sqrt(((got - want) ** 2).mean() / (want**2).mean())
    assert error <= bound, error


def evaluated(model: ea.PreTrainedModel, images: np.ndarray, fast: bool) -> np.ndarray:
    _core.set_fast_path("winograd", fast)
    with ea.no_grad(), forced():
        return as_float64(model(images).logits)


def network(dtype: str) -> ea.PreTrainedModel:
    """Returns a ResNet: norms, activations and residuals follow the convolutions."""
    ea.manual_seed(0)
    model = ea.create_model("resnet34", num_labels=5)
    rng = np.random.default_rng(3)
    for name, values in model.named_parameters():
        if "normalization" in name:
            change = rng.uniform(0.7, 1.3, values.shape)
            values.copy_(np.array(values.numpy()) * change + (change - 1) / 3)
    return model.to(dtype).eval()


@float32_and_pairs
def test_norms_and_residuals_behind_it(dtype: str):
    model = network(dtype)
    images = np.random.default_rng(4).standard_normal((2, 3, 75, 64))
    before = calls()
    got = evaluated(model, images, fast=True)
    assert calls() > before + 20
    want = evaluated(network("float32"), images, fast=False)
    assert np.abs(got - want).max() <= BOUND[dtype] * np.abs(want).max()


@float32_and_pairs
def test_bits_do_not_depend_on_threads_or_company(dtype: str):
    x = draw(dtype, 5, 64, 30, 31)
    weight = draw(dtype, 96, 64, 3, 3, seed=1)
    _core.set_num_threads(1)
    want = convolved(x, weight, padding=1)
    for threads in (2, 3, 8):
        _core.set_num_threads(threads)
        np.testing.assert_array_equal(convolved(x, weight, padding=1), want)
    for n in range(5):
        alone = convolved(x[n : n + 1], weight, padding=1)
        np.testing.assert_array_equal(alone[0], want[n])


def test_a_weight_that_changes_has_new_factors():
    x, weight = draw("float32", 1, 32, 8, 8), draw("float32", 48, 32, 3, 3, seed=1)
    convolved(x, weight)
    weight.copy_(np.asarray(draw("float32", 48, 32, 3, 3, seed=2)))
    want = convolved(x, draw("float32", 48, 32, 3, 3, seed=2))
    np.testing.assert_array_equal(convolved(x, weight), want)


@pytest.mark.parametrize(
    ("weight", "taps"),
    [
        ((64, 32, 3, 3), {"stride": 2}),
        ((64, 32, 3, 3), {"dilation": 2}),
        ((64, 16, 3, 3), {"groups": 2}),
        ((64, 32, 5, 5), {}),
        ((32, 32, 3, 3), {}),  # half a slab
        ((70, 32, 3, 3), {}),
    ],
)
def test_other_convolutions_go_to_onednn(weight: tuple[int, ...], taps: dict[str, int]):
    x, w = draw("float32", 1, 32, 12, 12), draw("float32", *weight, seed=1)
    before = calls()
    convolved(x, w, **taps)
    assert calls() == before


def test_training_and_the_switch_go_to_onednn():
    x, weight = draw("float32", 1, 32, 8, 8), draw("float32", 48, 32, 3, 3, seed=1)
    before = calls()
    exact = convolved(x, weight, fast=False)
    weight.requires_grad = True
    _core.set_fast_path("winograd", True)
    trained = F.conv2d(x, weight)
    assert calls() == before
    np.testing.assert_array_equal(as_float64(trained), exact)
