"""Floor division and remainders of tensors, and numbers beside them, are NumPy's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers_gradient import check_gradient

import evolving_attention as ea

A = np.random.default_rng(19).normal(size=(2, 3, 5))
T = ea.Tensor(A)
NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("dtype", "divisor"),
    [
        *((kind, n) for kind in ("int64", "int32", "float64") for n in (2, -2, 3)),
        *((kind, n) for kind in ("float32", "float64") for n in (0.7, -0.3)),
    ],
)
def test_floor_division_is_numpys(dtype, divisor):
    a = np.array([-7, -4, -1, 0, 1, 4, 7, 100]).astype(dtype)
    if "float" in dtype:
        a *= 1.37
    x, other = ea.Tensor(a), np.asarray(divisor, dtype)
    for found, exact in [
        (x // divisor, a // other),
        (x % divisor, a % other),
        (x // ea.Tensor(other), a // other),
        (x % ea.Tensor(np.full((2, 1), other)), a % np.full((2, 1), other)),
        (divisor // x[a != 0], other // a[a != 0]),
        (divisor % x[a != 0], other % a[a != 0]),
    ]:
        assert found.dtype == dtype
        assert found.shape == exact.shape
        np.testing.assert_allclose(
            found, exact, rtol=1e-6 if dtype == "float32" else 1e-14
        )


def test_floor_division_of_special_values():
    a = np.array([1.0, -1.0, 0.0, INF, NAN, -2.0])
    with np.errstate(all="ignore"):
        for divisor in (0.0, INF, -INF, NAN, 1.0):
            x = ea.Tensor(a)
            assert np.array_equal(x // divisor, a // divisor, equal_nan=True)
            assert np.array_equal(x % divisor, a % divisor, equal_nan=True)
    lowest = ea.Tensor([-(2**63)])
    assert (lowest // -1).tolist() == [-(2**63)]
    assert (lowest % -1).tolist() == [0]
    assert (ea.Tensor([200], dtype="uint8") // 7).tolist() == [28]
    half = ea.Tensor([7.5], dtype="bfloat16")
    assert ((half // 2).dtype, (half % 2).item()) == ("bfloat16", 1.5)
    assert (ea.Tensor(np.ones((0, 2))) % 2).shape == (0, 2)


def test_arrays_beside_tensors_stay_tensors():
    x = ea.Tensor([1.5, 2.0], dtype="float64", requires_grad=True)
    found = np.array([7.0, 7.0]) % x
    assert isinstance(found, ea.Tensor)
    assert found.tolist() == [1.0, 1.0]
    found.sum().backward()
    assert x.grad.tolist() == [-4, -3]
    assert isinstance(np.array([7.0, 7.0]) // x, ea.Tensor)


def test_gradients_of_remainders():
    check_gradient(lambda x: x % 0.7, A)
    check_gradient(lambda x, y: x % y, A, np.abs(A[:, :1]) + 0.3)
    check_gradient(lambda x, y: x % y, A[0, 0], np.abs(A) + 0.3)
    assert not (ea.Tensor([1.0], requires_grad=True) // 2).requires_grad


def test_numbers_beside_float64_keep_their_digits():
    x = ea.Tensor([0.7], dtype="float64")
    assert x.item() == ea.Tensor(0.7, dtype="float64").item() == 0.7
    assert (x * 0.1).item() == 0.7 * 0.1
    assert (x - [0.1]).item() == 0.7 - 0.1
    assert (x == 0.7).item() == 1
    assert x.masked_fill([1], 0.1).item() == 0.1
    assert (ea.Tensor([16777217]) == 16777217.0).item() == 1
    assert ea.Tensor([0.7]).dtype == "float32"


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ea.Tensor([1]) // 0, ea.InputError, r"\[floor_divide\].* by 0"),
        (lambda: 5 % ea.Tensor([1, 0]), ea.InputError, r"\[remainder\].* by 0"),
        (lambda: T % ea.Tensor([1.0]), ea.DTypeError, "type, got float64 and float32"),
        (lambda: T // np.ones(2), ea.ShapeError, "broadcast"),
        (lambda: ea.Tensor([1]) // 0.5, ea.DTypeError, "would lose its value"),
    ],
)
def test_mistakes_are_named(call, error, text):
    with pytest.raises(error, match=text):
        call()
