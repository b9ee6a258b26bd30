"""Sorted tensors and their largest elements are NumPy's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers_gradient import check_gradient

import evolving_attention as ea

A = np.random.default_rng(19).normal(size=(2, 3, 5))
T = ea.Tensor(A)
NAN, INF = math.nan, math.inf


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "int64", "uint8"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_numpys(dtype, axis, descending):
    x = ea.Tensor(np.round(np.abs(A) * 3), dtype=dtype)  # has ties
    a = x.to("float64").numpy()
    place = -1 if axis is None else axis
    order = np.argsort(-a if descending else a, place, kind="stable")
    values, indices = found = x.sort(axis, descending)
    assert (values.dtype, indices.dtype) == (dtype, "int64")
    assert np.array_equal(indices, order)
    assert np.array_equal(values.to("float64"), np.take_along_axis(a, order, place))
    assert np.array_equal(x.argsort(dim=axis, descending=descending), order)
    assert found.values is values
    for k in range(a.shape[place] + 1):
        best = x.topk(k, axis, largest=descending)
        wanted = np.take(order, range(k), axis=place)
        assert np.array_equal(best.indices, wanted)
        assert np.array_equal(best.values, np.take(values.numpy(), range(k), place))


def test_gradients_of_sorted_elements():
    check_gradient(lambda x: x.sort(1).values, A)
    check_gradient(lambda x: x.topk(2, largest=False).values, A)
    x = ea.Tensor([[1.0, 3.0, 3.0]], requires_grad=True)
    x.topk(1).values.sum().backward()
    assert x.grad.tolist() == [[0, 1, 0]]


def test_not_a_number_is_largest():
    x = ea.Tensor([NAN, 1.0, INF, NAN, -INF])
    assert x.argsort().tolist() == [4, 1, 2, 0, 3]
    assert x.argsort(descending=True).tolist() == [0, 3, 2, 1, 4]
    assert x.topk(3).indices.tolist() == [0, 3, 2]
    assert x.topk(1, largest=False).values.tolist() == [-INF]


def test_order_of_nothing():
    nothing = ea.Tensor(np.ones((0, 3)))
    assert [t.shape for t in nothing.sort(0)] == [(0, 3), (0, 3)]
    assert [t.shape for t in nothing.topk(2)] == [(0, 2), (0, 2)]
    assert nothing.argsort().shape == (0, 3)


def test_large_integers_are_sorted_exactly():
    assert ea.Tensor([2**60 + 1, 2**60]).sort().values.tolist() == [2**60, 2**60 + 1]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: T.sort(3), ea.ShapeError, "axis 3"),
        (lambda: ea.Tensor(1.0).argsort(), ea.ShapeError, "axis -1"),
        (lambda: T.topk(6), ea.ShapeError, r"\[topk\] k is 6, expected 0 to 5"),
        (lambda: T.topk(-1), ea.ShapeError, r"\[topk\] k is -1, expected 0"),
        (lambda: T.topk(1.5), ea.ConfigError, "topk: k"),
    ],
)
def test_mistakes_are_named(call, error, text):
    with pytest.raises(error, match=text):
        call()
