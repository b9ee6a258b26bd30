"""Variances, norms and log-sums of tensors mean the same as in NumPy and SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers_gradient import check_gradient
from scipy import special
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
from evolving_attention import functional as F

NONE = ea.Tensor(np.ones((2, 0)))
NAN, INF = math.nan, math.inf


def log_of_sum(a, axis=None, keepdims=False):
    return np.asarray(special.logsumexp(a, axis=axis, keepdims=keepdims))


def length(a, p):
    def call(axis=None, keepdims=False):
        size = np.abs(a)
        if p == INF:
            return size.max(axis=axis, keepdims=keepdims)
        return (size**p).sum(axis=axis, keepdims=keepdims) ** (1 / p)

    return call


# Our method, and NumPy's function of the axis that gives the expected result.
REDUCTIONS = {
    "var": (lambda x, **k: x.var(**k), lambda a, **k: a.var(ddof=1, **k)),
    "std": (lambda x, **k: x.std(**k), lambda a, **k: a.std(ddof=1, **k)),
    "population": (lambda x, **k: x.std(correction=0, **k), lambda a, **k: a.std(**k)),
    "norm": (lambda x, **k: x.norm(**k), lambda a, **k: length(a, 2)(**k)),
    "norm 1": (lambda x, **k: x.norm(1, **k), lambda a, **k: length(a, 1)(**k)),
    "norm inf": (lambda x, **k: x.norm(INF, **k), lambda a, **k: length(a, INF)(**k)),
    "logsumexp": (lambda x, **k: x.logsumexp(**k), log_of_sum),
    "F.logsumexp": (lambda x, **k: F.logsumexp(x, **k), log_of_sum),
}


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_are_numpys(name, axis):
    check_axis(*REDUCTIONS[name], axis)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", TYPES)
def test_reductions_in_every_type(name, dtype):
    check_type(*REDUCTIONS[name], dtype, whole="float32")


def test_the_spread_of_large_numbers_keeps_its_digits():
    assert ea.Tensor([2**30, 2**30 + 1, 2**30 + 2]).var().item() == 1.0
    assert ea.Tensor([16777216.0, 16777218.0]).var().item() == 2.0
    assert ea.Tensor([255, 1], dtype="uint8").var(ddof=0).item() == 127**2


def test_corrections_have_three_names():
    x = ea.Tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    assert x.var().item() == x.var(unbiased=True).item() == 2.5
    for words in ({"correction": 0}, {"unbiased": False}, {"ddof": 0}):
        assert x.var(**words).item() == 2.0
    assert x.var(correction=2.5).item() == 4.0
    with pytest.raises(ea.ConfigError, match=r"\[std\] correction, unbiased and ddof"):
        x.std(correction=0, ddof=0)


@pytest.mark.parametrize("name", ["std", "var"])
def test_numpys_functions_call_the_methods(name):
    x = check_function(name)
    assert np.std(x, ddof=1).item() == x.std().item()


def test_slopes_where_nothing_varies_are_zero():
    for name in ("std", "norm"):
        x = ea.Tensor(np.zeros((2, 3)), requires_grad=True)
        getattr(x, name)(dim=1).sum().backward()
        assert x.grad.tolist() == np.zeros((2, 3)).tolist()


@pytest.mark.parametrize("name", ["std", "norm"])
def test_what_is_not_a_number_shows(name):
    for bad in (NAN, INF):
        x = ea.Tensor([[1.0, bad], [1.0, 2.0]])
        found = getattr(x, name)(dim=1).tolist()
        assert not math.isfinite(found[0])
        assert math.isfinite(found[1])


def test_a_hand_written_layer_norm():
    x = ea.Tensor(A, requires_grad=True)
    scale = (x.var(dim=-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
    y = (x - x.mean(dim=-1, keepdim=True)) / scale
    exact = F.layer_norm(ea.Tensor(A), np.ones(5), np.zeros(5), 1e-5)
    np.testing.assert_allclose(y.detach(), exact, rtol=1e-10)


# --- exponentials ---------------------------------------------------------------------


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_log_softmax(axis):
    exact = special.log_softmax(A, axis=-1 if axis is None else axis)
    for found in (T.log_softmax(axis), F.log_softmax(T, dim=axis)):
        np.testing.assert_allclose(found, exact, rtol=1e-12)
    check_gradient(lambda x: x.log_softmax(dim=axis), A)
    half = ea.Tensor(A, dtype="bfloat16")
    exact = special.log_softmax(half.to("float64"), axis=-1)
    np.testing.assert_allclose(half.log_softmax().to("float64"), exact, rtol=HALF)


def test_exponentials_of_extreme_numbers():
    x = ea.Tensor([[1e30, 0.0], [-1e30, -1e30], [88.0, 89.0]], requires_grad=True)
    assert np.isfinite(x.log_softmax(-1).detach()).all()
    assert x.logsumexp(-1).tolist()[0] == np.float32(1e30)
    (x.logsumexp(-1) + x.log_softmax(-1).sum(-1)).sum().backward()
    assert np.isfinite(x.grad).all()
    hidden = ea.Tensor([0.0, -INF, 0.0], dtype="float64", requires_grad=True)
    hidden.logsumexp(0).backward()
    assert hidden.grad.tolist() == [0.5, 0, 0.5]
    assert hidden.logsumexp().item() == math.log(2)
    assert hidden.log_softmax().tolist()[1] == -INF
    for many, sum_of_them in (([-INF, -INF], -INF), ([1.0, INF], INF)):
        assert ea.Tensor(many).logsumexp().item() == sum_of_them
        assert np.isnan(ea.Tensor(many).log_softmax()).all()
    assert math.isnan(ea.Tensor([1.0, NAN]).logsumexp().item())
    assert ea.Tensor(np.ones((2, 0))).logsumexp(1).tolist() == [-INF, -INF]
    assert ea.Tensor(np.ones((2, 0))).log_softmax(1).shape == (2, 0)


# --- errors ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: NONE.var(), ea.ShapeError, r"\[var\] 0 elements less a correction"),
        (lambda: ea.Tensor([1.0]).std(), ea.ShapeError, r"\[std\] 1 elements.*more"),
        (lambda: T.var(3), ea.ShapeError, "axis 3"),
        (lambda: T.std((0, 0)), ea.ConfigError, "axis 0 stands twice"),
        (lambda: T.var(0, dim=1), ea.ConfigError, "axis and dim"),
        (lambda: T.std(True), ea.ConfigError, "whole number, got a bool True"),
        (lambda: T.std(out=A), ea.ConfigError, r"\[out\]"),
        (lambda: T.norm(3), ea.ConfigError, r"\[norm\] p is 3, expected 1, 2 or inf"),
        (lambda: T.norm(-INF), ea.ConfigError, "p is -inf"),
        (lambda: NONE.norm(INF, 1), ea.ShapeError, "no elements"),
        (lambda: T.logsumexp(3), ea.ShapeError, "axis 3"),
        (lambda: T.log_softmax(3), ea.ShapeError, "axis 3"),
        (lambda: F.log_softmax([1, 2]), ea.DTypeError, "got int64"),
    ],
)
def test_mistakes_are_named(call, error, text):
    with pytest.raises(error, match=text):
        call()
