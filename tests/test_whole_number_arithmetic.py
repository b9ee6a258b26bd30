"""Arithmetic of whole numbers and masks, alone and next to floating tensors."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import evolving_attention as ea

A, B = np.array([[3, 0, 7], [-2, 5, 1]]), np.array([2, 2, 4])
OPERATORS = [operator.add, operator.sub, operator.mul]


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_two_of_whole_numbers(op, dtype):
    a, b = ea.Tensor(A, dtype=dtype), ea.Tensor(B, dtype=dtype)
    for found, exact in (
        (op(a, b), op(A, B)),
        (op(a, 3), op(A, 3)),
        (op(3, b), op(3, B)),
    ):
        assert found.dtype == dtype
        assert found.tolist() == exact.tolist()


def test_the_lines_of_error_analysis():
    scores, labels = ea.Tensor([[1.0, 2], [3, 0], [0, 1]]), ea.Tensor([0, 0, 1])
    predicted = scores.argmax(-1)
    assert (predicted - labels).abs().tolist() == [1, 0, 0]
    assert (-predicted).tolist() == [-1, 0, -1]
    assert predicted.abs().dtype == "int64"
    assert (predicted / 2).dtype == "float32"
    assert (predicted / 2).tolist() == [0.5, 0, 0.5]
    assert (predicted == labels).float().mean().item() == pytest.approx(2 / 3)


def test_unsigned_numbers_wrap_as_in_numpy():
    x = np.array([250, 3], np.uint8)
    assert (ea.Tensor(x) + ea.Tensor(x)).tolist() == (x + x).tolist()
    assert (-ea.Tensor(x)).tolist() == (-x).tolist()


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("other", ["int64", "uint8", "bool"])
def test_next_to_floating_numbers_they_take_their_type(op, dtype, other):
    x = ea.Tensor([1.5, -2, 3], dtype=dtype, requires_grad=True)
    y = ea.Tensor([2, 0, 1], dtype=other)
    same = y.to(dtype)
    for found, exact in ((op(x, y), op(x, same)), (op(y, x), op(same, x))):
        assert found.dtype == dtype
        assert found.tolist() == exact.tolist()
    op(x, y).sum().backward()
    assert x.grad is not None
    expected = same.tolist() if op is operator.mul else [1, 1, 1]
    assert x.grad.tolist() == expected


def test_masks():
    p, q = ea.Tensor([True, True, False]), ea.Tensor([True, False, False])
    assert (p + q).tolist() == [True, True, False]
    assert (p * q).tolist() == [True, False, False]
    assert (p + 1).tolist() == [2, 2, 1]
    assert (p * ea.Tensor([5, 6, 7])).tolist() == [5, 6, 0]
    assert (1 - p).tolist() == [0, 0, 1]
    with pytest.raises(ea.DTypeError, match=r"masks have no difference; use \^"):
        p - q
    with pytest.raises(ea.DTypeError, match="masks have no difference"):
        operator.neg(p)


def test_two_types_of_whole_numbers_are_not_mixed():
    with pytest.raises(ea.DTypeError, match="one type, got int64 and int32"):
        ea.Tensor([1]) + ea.Tensor([1], dtype="int32")


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64"])
@pytest.mark.parametrize("op", [operator.mul, operator.add, operator.sub])
def test_a_tensor_beside_a_mask_keeps_its_gradient(op, dtype):
    x = ea.Tensor([1.0, 2.0, 3.0], requires_grad=True)
    mask = ea.Tensor([0, 1, 1], dtype=dtype)
    op(mask, x).sum().backward()
    sign = -1.0 if op is operator.sub else 1.0
    slopes = [0.0, 1.0, 1.0] if op is operator.mul else [sign] * 3
    assert x.grad.tolist() == slopes


def test_the_number_of_a_mask_is_a_bool():
    same = (ea.Tensor([1.0]) == ea.Tensor([1.0])).all()
    assert same.item() is True
    assert f"{same}" == "True"
    assert int(same) + float(same) == 2
