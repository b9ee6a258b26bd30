"""Operands, indices and sizes of other libraries, and results that must be copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evolving_attention as ea
from evolving_attention import functional as F

Z = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)


def test_sizes_and_axes_may_be_any_sequence_of_whole_numbers():
    """Their elements are objects that nothing else owns."""
    x = ea.Tensor(Z)
    axes = ea.Tensor([2, 0, 1])
    assert np.array_equal(x.permute(axes), Z.transpose(2, 0, 1))
    assert np.array_equal(x.permute(axes.argsort()), Z.transpose(1, 2, 0))
    assert np.array_equal(x.permute(np.array([2, 0, 1])), Z.transpose(2, 0, 1))
    assert ea.Tensor(np.zeros(70_000)).reshape(range(70_000, 70_001)).ndim == 1
    assert x.reshape(np.prod((2, 12))).shape == (24,)
    with pytest.raises(ea.ConfigError, match="reshape"):
        x.reshape(2.5)


def test_whole_numbers_have_no_gradient():
    x = ea.Tensor([0.6, 1.4], requires_grad=True)
    for dtype in ("int64", "int32", "uint8"):
        whole = x.to(dtype)
        assert whole.tolist() == [0, 1]
        assert not whole.requires_grad
    assert x.to("float64").requires_grad


N = ea.Tensor([7, 8])
FRACTIONS: dict[str, Callable[[], Any]] = {
    "array": lambda: N // np.array([1.5, 2.5]),
    "number": lambda: N % np.float32(2.5),
    "list": lambda: [7.5, 8.5] // N,
    "where": lambda: F.where([1, 0], [1, 2], [0.5, 0.7]),
    "infinite": lambda: N.masked_fill([1, 0], np.float32(-np.inf)),
    "0-d": lambda: N // np.array(0.5),
}


@pytest.mark.parametrize("name", FRACTIONS)
def test_fractions_of_arrays_beside_integers_are_refused(name):
    with pytest.raises(ea.DTypeError, match=r"beside a tensor of int64 would lose"):
        FRACTIONS[name]()


def test_whole_floats_beside_integers_are_exact():
    assert (N // np.array([2.0, 3.0])).tolist() == [3, 2]
    assert (np.float32(9.0) % N).tolist() == [2, 1]
    with pytest.raises(ea.DTypeError, match="would lose its value"):
        N.masked_fill([1, 0], np.float64(1e19))


def test_indices_are_integers_or_masks():
    x = ea.Tensor([10.0, 20.0, 30.0])
    for key in (ea.Tensor([1.0, 0.0, 1.0]), ea.Tensor([0.9, 1.9])):
        with pytest.raises(ea.InputError, match="float32 is not an index"):
            x[key]


def test_operands_of_pytorch():
    torch = pytest.importorskip("torch")
    x = ea.Tensor([2.0, 3.0, 4.0])
    assert (x ** torch.tensor([2.0, 3.0, 1.0])).tolist() == [4.0, 27.0, 4.0]
    assert x[torch.tensor([0, 2])].tolist() == [2.0, 4.0]
    assert x[torch.tensor([True, False, True])].tolist() == [2.0, 4.0]
    assert x[torch.tensor(1)].tolist() == 3.0


def test_exponents_that_are_no_numbers():
    x = ea.Tensor([2.0, 3.0])
    with pytest.raises(OverflowError):
        x ** (10**400)
    with pytest.raises(ea.DTypeError, match="complex"):
        x**1j
    assert (x ** np.float32(2)).tolist() == [4.0, 9.0]


COPIES: dict[str, Callable[[Any], Any]] = {
    "power": lambda x: x**1,
    "prod of one": lambda x: x.reshape(1, 2).prod(0),
    "prod of none": lambda x: x.prod(axis=()),
    "concat": lambda x: F.concat([x]),
    "stack": lambda x: F.stack([x])[0],
}


@pytest.mark.parametrize("name", COPIES)
def test_results_do_not_share_memory(name):
    memory = np.ones(2, np.float32)
    found = COPIES[name](ea.from_numpy(memory))
    memory[:] = 0
    assert found.tolist() == [1.0, 1.0]
