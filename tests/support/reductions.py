"""Checks of reductions over axes of a tensor against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_gradient import check_gradient

import evolving_attention as ea

A = np.random.default_rng(19).normal(size=(2, 3, 5))
T = ea.Tensor(A)
HALF = np.float64(2**-8)  # largest relative error of one rounding to bfloat16
AXES = [None, 0, -1, (0, 2), [1, -1], (0, 1, 2)]
TYPES = ["float32", "bfloat16", "int64", "int32", "uint8"]


def key(axis):
    """Returns the axis as NumPy takes it."""
    return tuple(axis) if isinstance(axis, list) else axis


def check_axis(ours, theirs, axis):
    """Checks values, both names of each argument, and the gradient."""
    for kept in (False, True):
        exact = theirs(A, axis=key(axis), keepdims=kept)
        for words in (
            {"axis": axis, "keepdims": kept},
            {"dim": axis, "keepdim": kept},
        ):
            found = ours(T, **words)
            assert found.shape == exact.shape
            np.testing.assert_allclose(found, exact, rtol=1e-12)
    check_gradient(lambda x: ours(x, axis=axis), A)


def check_type(ours, theirs, dtype, whole):
    """Checks values and types of results; those of integers have the type ``whole``."""
    x = ea.Tensor(np.abs(A) * 4 + 1, dtype=dtype)
    plain = x.to("float64").numpy()
    found = ours(x, axis=1)
    is_whole = "int" in dtype
    assert found.dtype == (whole if is_whole else dtype)
    rtol = HALF if dtype == "bfloat16" else 2e-6  # bfloat16 is rounded once
    np.testing.assert_allclose(found.to("float64"), theirs(plain, axis=1), rtol=rtol)
    if not is_whole:
        x.requires_grad = True
        ours(x, axis=1).sum().backward()
        assert x.grad.dtype == dtype


def check_function(name):
    """Checks that NumPy's function calls the method; returns the tensor."""
    x = ea.Tensor(A, requires_grad=True)
    for words in ({}, {"axis": 1}):
        found = getattr(np, name)(x, **words)
        assert isinstance(found, ea.Tensor)
        assert found.requires_grad
        exact = getattr(np, name)(A, **words)
        np.testing.assert_allclose(found.detach(), exact, rtol=1e-12)
    with pytest.raises(ea.ConfigError, match="leave dtype= out"):
        getattr(np, name)(x, dtype="float32")
    return x
