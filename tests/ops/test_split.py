"""Parts of tensors are those that NumPy splits an array into."""

from __future__ import annotations

import time

import numpy as np
import pytest
from helpers_gradient import check_gradient

import evolving_attention as ea
from evolving_attention import functional as F

A = np.random.default_rng(19).normal(size=(2, 3, 5))
T = ea.Tensor(A)
PARTS = {
    "split": (lambda x: x.split(2, -1), lambda a: np.split(a, [2, 4], -1)),
    "split exactly": (lambda x: x.split(1), lambda a: np.split(a, [1])),
    "split whole": (lambda x: x.split(9, dim=1), lambda a: [a]),
    "split sizes": (
        lambda x: x.split([1, 0, 4], dim=2),
        lambda a: np.split(a, [1, 1], 2),
    ),
    "chunk": (lambda x: x.chunk(2, dim=-1), lambda a: np.split(a, [3], -1)),
    "even chunks": (lambda x: x.chunk(2), lambda a: np.split(a, [1])),
    "few chunks": (lambda x: x.chunk(4, 2), lambda a: np.split(a, [2, 4], 2)),
    "too many chunks": (lambda x: x.chunk(7), lambda a: np.split(a, [1])),
    "unbind": (lambda x: x.unbind(), list),
    "unbind last": (lambda x: x.unbind(dim=-1), lambda a: list(np.moveaxis(a, -1, 0))),
}


@pytest.mark.parametrize("case", PARTS)
@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "int64"])
def test_parts_are_numpys(case, dtype):
    ours, theirs = PARTS[case]
    x = ea.Tensor(A * 50, dtype=dtype)
    found, exact = ours(x), theirs(x.numpy())
    assert type(found) is tuple
    assert len(found) == len(exact)
    for part, wanted in zip(found, exact, strict=True):
        assert part.dtype == dtype
        assert np.array_equal(part, wanted)
    found[0].copy_(np.full(found[0].shape, 77))
    assert not np.any(x.numpy() == 77)
    for which in range(len(exact)):
        if exact[which].size:
            check_gradient(lambda x, which=which: ours(x)[which], A)


@pytest.mark.parametrize("parts", [list, ea.Tensor.unbind, lambda x: x.split(1)])
def test_backward_does_not_copy_all_rows_for_each(parts):
    """That would copy and add 200 GB."""
    x = ea.Tensor(np.ones((4096, 1024), np.float32), requires_grad=True)
    total = F.concat([row.reshape(1, -1) for row in parts(x)]).sum()
    begin = time.perf_counter()
    total.backward()
    assert time.perf_counter() - begin < 4
    assert np.all(x.grad == 1)


def test_rows_come_one_by_one():
    x = ea.Tensor(A)
    assert np.array_equal(np.stack([row.numpy() for row in x]), A)
    assert list(ea.Tensor(np.ones((0, 3)))) == []
    first, second = x
    assert np.array_equal(second, A[1])
    assert first.shape == (3, 5)
    check_gradient(lambda x: sum(row * i for i, row in enumerate(x)), A)


def test_parts_of_nothing():
    nothing = ea.Tensor(np.ones((0, 3)))
    assert [p.shape for p in nothing.split(2)] == [(0, 3)]
    assert [p.shape for p in nothing.split([])] == []
    assert [p.shape for p in nothing.chunk(2)] == [(0, 3)] * 2
    assert nothing.unbind() == ()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: T.split(0), ea.ShapeError, "split_size is 0, expected at least 1"),
        (lambda: T.split([1, 2], 2), ea.ShapeError, "3 elements together, expected 5"),
        (lambda: T.split([6, -1], 2), ea.ShapeError, "a part has size 6, expected 0"),
        (lambda: T.split("a"), ea.ConfigError, "split: split_size"),
        (lambda: T.chunk(0), ea.ConfigError, r"\[chunk\] chunks is 0"),
        (lambda: T.unbind(3), ea.ShapeError, "axis 3"),
        (lambda: ea.Tensor(1.0).unbind(), ea.ShapeError, "axis 0"),
    ],
)
def test_mistakes_are_named(call, error, text):
    with pytest.raises(error, match=text):
        call()
