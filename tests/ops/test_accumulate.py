"""Products and running sums of tensors mean the same as in NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers_gradient import check_gradient
from support.reductions import (
    AXES,
    HALF,
    TYPES,
    A,
    T,
    check_axis,
    check_function,
    check_type,
)

import evolving_attention as ea

NAN, INF = math.nan, math.inf
# Our method, and NumPy's.
PROD = (lambda x, **k: x.prod(**k), lambda a, **k: a.prod(**k))


@pytest.mark.parametrize("axis", AXES, ids=str)
def test_products_are_numpys(axis):
    check_axis(*PROD, axis)


@pytest.mark.parametrize("dtype", TYPES)
def test_products_in_every_type(dtype):
    check_type(*PROD, dtype, whole="int64")


def test_products_with_zeros():
    for a in ([0.0, 2.0, 3.0, 4.0], [0.0, 2.0, 0.0], [5.0], [2.0, 3.0]):
        check_gradient(lambda x: x.prod(), np.array(a))
    half = ea.Tensor(1 + A.ravel() / 8, dtype="bfloat16")  # rounded once
    assert abs(half.prod().item() / half.to("float64").prod().item() - 1) <= HALF
    nothing = ea.Tensor(np.ones((2, 0)))
    assert nothing.prod(1).tolist() == [1, 1]
    assert nothing.to("int64").prod(1).tolist() == [1, 1]
    assert ea.Tensor(np.arange(1, 21)).prod().item() == math.factorial(20)
    assert ea.Tensor([3**30, 3**30]).prod().item() == np.prod([3**30, 3**30])
    assert (ea.Tensor([1.0, 2.0]) > 0).prod().item() == 1


@pytest.mark.parametrize("name", ["prod", "cumsum"])
def test_numpys_functions_call_the_methods(name):
    check_function(name)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "int32", "uint8"])
def test_cumsum(axis, dtype):
    x = ea.Tensor(np.abs(A) * 90, dtype=dtype)
    found = x.cumsum(dim=axis)
    assert found.dtype == ("int64" if "int" in dtype else dtype)
    exact = x.to("float64").numpy().cumsum(axis)
    rtol = {"bfloat16": HALF, "float32": 1e-7}.get(dtype, 1e-14)
    np.testing.assert_allclose(found.to("float64"), exact, rtol=rtol)
    check_gradient(lambda x: x.cumsum(axis), A)


def test_cumsum_of_special_values():
    assert ea.Tensor([[2**60, 1]]).cumsum(1).tolist() == [[2**60, 2**60 + 1]]
    assert np.array_equal(
        ea.Tensor([1.0, INF, 2.0, NAN, 1.0]).cumsum(0),
        [1, INF, INF, NAN, NAN],
        equal_nan=True,
    )
    assert ea.Tensor(np.ones((0, 3))).cumsum(0).shape == (0, 3)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: T.prod(7), ea.ShapeError, r"\[prod\].*axis 7|axis 7"),
        (lambda: T.cumsum(3), ea.ShapeError, "axis 3"),
        (lambda: T.cumsum(0, dim=0), ea.ConfigError, "axis and dim"),
    ],
)
def test_mistakes_are_named(call, error, text):
    with pytest.raises(error, match=text):
        call()
