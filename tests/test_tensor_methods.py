"""Methods of tensors mean the same as in NumPy and PyTorch."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers_gradient import check_gradient

import evolving_attention as ea
from evolving_attention import _core
from evolving_attention import functional as F

RNG = np.random.default_rng(7)
A = RNG.normal(size=(2, 3, 4))
T = ea.Tensor(A)
B = RNG.normal(size=(2, 1, 3, 1))

# Our call, and the NumPy call that gives the expected result.
SHAPES = {
    "two axes": (lambda x: x.transpose(-1, 0), lambda a: np.swapaxes(a, -1, 0)),
    "two by name": (
        lambda x: x.transpose(axis_a=0, axis_b=1),
        lambda a: np.swapaxes(a, 0, 1),
    ),
    "an order": (lambda x: x.transpose(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "a tuple": (lambda x: x.transpose((1, -1, 0)), lambda a: a.transpose(1, 2, 0)),
    "no axes": (lambda x: x.transpose(), lambda a: a.transpose()),
    "permute": (lambda x: x.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "permute a list": (lambda x: x.permute([1, 2, 0]), lambda a: a.transpose(1, 2, 0)),
    "T": (lambda x: x.T, lambda a: a.T),
    "mT": (lambda x: x.mT, lambda a: np.swapaxes(a, -1, -2)),
    "view": (lambda x: x.view(4, -1), lambda a: a.reshape(4, -1)),
    "flatten": (lambda x: x.flatten(), lambda a: a.reshape(24)),
    "flatten from": (lambda x: x.flatten(1), lambda a: a.reshape(2, 12)),
    "flatten to": (lambda x: x.flatten(0, 1), lambda a: a.reshape(6, 4)),
    "flatten one": (lambda x: x.flatten(1, 1), lambda a: a),
    "unsqueeze": (lambda x: x.unsqueeze(1), lambda a: a[:, None]),
    "unsqueeze last": (lambda x: x.unsqueeze(dim=-1), lambda a: a[..., None]),
    "contiguous": (lambda x: x.T.contiguous(), lambda a: a.T),
    "clone": (lambda x: x.clone(), lambda a: a),
}
SUMS = {
    "two axes": (lambda x: x.sum((0, 2)), lambda a: a.sum((0, 2))),
    "a list": (lambda x: x.sum(dim=[1, -1]), lambda a: a.sum((1, 2))),
    "all": (lambda x: x.sum((2, 0, 1)), lambda a: a.sum()),
    "none": (lambda x: x.sum(()), lambda a: a),
    "kept": (
        lambda x: x.mean((0, 1), keepdims=True),
        lambda a: a.mean((0, 1), keepdims=True),
    ),
    "mean": (lambda x: x.mean(dim=(0, 2)), lambda a: a.mean((0, 2))),
    "functions": (lambda x: F.mean(x, (0, 2)), lambda a: a.mean((0, 2))),
    "stack": (lambda x: F.stack([x, x * 2.0], 1), lambda a: np.stack([a, a * 2], 1)),
    "stack last": (lambda x: F.stack([x, x], dim=-1), lambda a: np.stack([a, a], -1)),
}
POINTWISE = {
    "relu": (lambda x: x.relu(), lambda a: np.maximum(a, 0)),
    "sigmoid": (lambda x: x.sigmoid(), lambda a: 1 / (1 + np.exp(-a))),
    "tanh": (lambda x: x.tanh(), np.tanh),
    "exp": (lambda x: x.exp(), np.exp),
    "log": (lambda x: x.exp().log(), lambda a: np.log(np.exp(a))),
    "sqrt": (lambda x: x.exp().sqrt(), lambda a: np.sqrt(np.exp(a))),
    "softmax": (
        lambda x: x.softmax(dim=1),
        lambda a: np.exp(a) / np.exp(a).sum(1, keepdims=True),
    ),
    "matmul": (lambda x: x.matmul(x.mT), lambda a: a @ np.swapaxes(a, 1, 2)),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), lambda a: a.clip(-0.5, 0.5)),
    "clamp from": (lambda x: x.clamp(min=0), lambda a: a.clip(0)),
    "masked_fill": (
        lambda x: x.masked_fill(x > 0, 3.0),
        lambda a: np.where(a > 0, 3.0, a),
    ),
    "masked_fill row": (
        lambda x: x.masked_fill(np.arange(4) > 1, -1),
        lambda a: np.where(np.arange(4) > 1, -1, a),
    ),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64"])
def test_shapes_are_numpys(name, dtype):
    ours, theirs = SHAPES[name]
    t = ea.Tensor(A * 100, dtype=dtype)
    found = ours(t)
    assert found.dtype == dtype
    assert np.array_equal(found, theirs(t.numpy()))


@pytest.mark.parametrize("name", [*SUMS, *POINTWISE])
def test_values_are_numpys(name):
    ours, theirs = (SUMS | POINTWISE)[name]
    np.testing.assert_allclose(ours(T), theirs(A), rtol=1e-12)


@pytest.mark.parametrize("name", [*SHAPES, *SUMS, *POINTWISE])
def test_gradients(name):
    check_gradient((SHAPES | SUMS | POINTWISE)[name][0], A)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "uint8"])
def test_rows_of_few_elements_are_copied_whole(dtype):
    # Several threads share 150,000 elements; the last axis of each copy is short.
    a = RNG.integers(0, 200, size=(2, 3, 250, 100))
    t = ea.Tensor(a, dtype=dtype)
    assert np.array_equal(t.transpose(1, 3).numpy(), np.swapaxes(t.numpy(), 1, 3))
    assert np.array_equal(t.permute(2, 0, 3, 1), t.numpy().transpose(2, 0, 3, 1))
    assert np.array_equal(t[..., :2], t.numpy()[..., :2])
    assert np.array_equal(t.T[..., 1:], t.numpy().T[..., 1:])


def test_squeeze_takes_axes_of_size_one():
    t = ea.Tensor(B)
    assert t.squeeze().shape == (2, 3)
    assert t.squeeze(1).shape == t.squeeze(dim=-3).shape == (2, 3, 1)
    assert ea.Tensor([[1.0]]).squeeze().item() == 1.0
    check_gradient(lambda x: x.squeeze(), B)
    with pytest.raises(ea.ShapeError, match=r"axis 0 .* has size 2, expected 1"):
        t.squeeze(0)


def test_numpys_functions_call_the_methods():
    t = ea.Tensor(A, requires_grad=True)
    assert np.transpose(t, (2, 0, 1)).requires_grad
    assert np.array_equal(np.transpose(t), A.T)
    assert np.squeeze(ea.Tensor(B)).shape == (2, 3)
    assert np.any(ea.Tensor(A) > 0).item() == 1
    assert np.sum(t, axis=(0, 1)).requires_grad


def test_types():
    assert T.float().dtype == "float32"
    assert T.bfloat16().double().dtype == "float64"
    x = ea.Tensor([1.5], requires_grad=True)
    x.double().sum().backward()
    assert x.grad.dtype == "float32"
    same = ea.Tensor([1.5])
    other = same.astype(np.float32)
    other.copy_([2.0])
    assert same.tolist() == [1.5]
    assert same.astype("int64").tolist() == [1]
    with pytest.raises(ea.DTypeError, match="float17"):
        same.astype("float17")


def test_requires_grad_in_place():
    x = ea.Tensor([1.0])
    assert x.requires_grad_().requires_grad
    assert x.requires_grad
    assert not x.requires_grad_(False).requires_grad
    (x.requires_grad_() * 2.0).sum().backward()
    assert x.grad.tolist() == [2.0]
    with pytest.raises(ea.InputError, match="True or False"):
        x.requires_grad_(1)


# --- masks ----------------------------------------------------------------------------


def test_masks_are_combined():
    a, b = A > 0, A > 0.5
    p, q = T > 0, T > 0.5
    for found, exact in [
        (p & q, a & b),
        (p | q, a | b),
        (p ^ q, a ^ b),
        (~p, ~a),
        (p & b[0], a & b[0]),
        (b & p, b & a),
        (p | True, a | True),
        (~ea.Tensor([0, 2], dtype="uint8"), [True, False]),
    ]:
        assert found.dtype == "bool"
        assert np.array_equal(found, exact)


def test_only_masks_are_combined():
    with pytest.raises(ea.DTypeError, match=r"two masks, .*compare"):
        T & T
    with pytest.raises(ea.DTypeError, match="got int64"):
        ~ea.Tensor([1, 2])
    with pytest.raises(ea.ShapeError, match="broadcast"):
        (T > 0) & (ea.Tensor([1.0, 2.0]) > 0)


@pytest.mark.parametrize("name", ["any", "all"])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_any_and_all_are_numpys(name, axis, keepdims):
    for a in (A > 0, A > 5, A > -5, A):
        exact = getattr(a, name)(axis=axis, keepdims=keepdims)
        found = getattr(ea.Tensor(a), name)(axis=axis, keepdims=keepdims)
        assert found.dtype == "bool"
        assert np.array_equal(found, exact)


def test_of_nothing():
    nothing = ea.Tensor(np.zeros((0, 3)))
    assert not nothing.any()
    assert nothing.all()
    assert nothing.T.shape == (3, 0)
    assert nothing.flatten().shape == (0,)
    assert ea.Tensor(2.0).flatten().shape == (1,)
    assert ea.Tensor(2.0).T.item() == 2.0


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: T.permute(0, 1), ea.ShapeError, r"2 axes .* expected 3"),
        (lambda: T.permute(0, 1, 1), ea.ShapeError, "axis 1 stands twice"),
        (lambda: T.permute(0, 1, 3), ea.ShapeError, "axis 3"),
        (lambda: T.permute("abc"), ea.ConfigError, "whole number"),
        (lambda: T.transpose(0), ea.ShapeError, r"\[transpose\] 1 axes"),
        (lambda: T.transpose(0, "1"), ea.ConfigError, "got a str '1'"),
        (lambda: T.transpose(0, 1, 2, 0), ea.ShapeError, "4 axes"),
        (lambda: ea.Tensor([1.0]).mT, ea.ShapeError, "no two axes"),
        (lambda: T.unsqueeze(), ea.ConfigError, "axis is missing"),
        (lambda: T.unsqueeze(5), ea.ShapeError, "axis 5"),
        (lambda: T.flatten(2, 1), ea.ShapeError, "is after"),
        (lambda: T.view(5, -1), ea.ShapeError, "not a multiple"),
        (lambda: T.sum((0, -3)), ea.ConfigError, "axis -3 stands twice"),
        (lambda: T.sum((0, 3)), ea.ShapeError, "axis 3"),
        (lambda: T.sum(("a",)), ea.ConfigError, "whole number"),
        (lambda: T.sum("a"), ea.ConfigError, "whole number"),
        (lambda: T.sum(0, dim=(1, 2)), ea.ConfigError, "axis and dim"),
        (lambda: T.masked_fill(np.ones(3), 0.0), ea.ShapeError, "broadcast"),
        (lambda: F.stack([]), ea.ShapeError, "one shape, got none"),
        (lambda: F.stack([[1.0], [1.0, 2.0]]), ea.ShapeError, "one shape"),
        (lambda: F.stack([T], 0, dim=0), ea.ConfigError, "axis and dim"),
    ],
)
def test_mistakes_are_named(call, error, text):
    with pytest.raises(error, match=text):
        call()


NAMES = [name for name in dir(ea.Tensor) if not name.startswith("_")]


@pytest.mark.parametrize("name", [n for n in NAMES if callable(getattr(ea.Tensor, n))])
def test_wrong_calls_name_the_method_and_its_arguments(name):
    with pytest.raises(TypeError) as caught:
        getattr(T, name)(nonsense=1)
    told = str(caught.value)
    assert told.startswith(f"[Tensor.{name}] cannot be called with (nonsense=int); exp")
    assert f"expected {name}(" in told
    assert not re.search("Supports|_core|self|Invoked|->", told)
    assert len(told) < 340


@pytest.mark.parametrize(
    ("call", "given"),
    [
        (lambda: ea.Tensor.abs(), ""),
        (lambda: _core.StepLog.restart_step(3), "int"),
        (lambda: ea.Tensor.abs(self=T), "self=Tensor"),
    ],
)
def test_methods_of_the_class_name_self(call, given):
    with pytest.raises(TypeError) as caught:
        call()
    told = str(caught.value)
    assert re.match(r"\[(Tensor\.abs|StepLog\.restart_step)\] cannot", told)
    assert f"({given}); expected " in told
    assert re.search(r"\(self: (Tensor|StepLog)\)", told)


def test_options_of_numpy_and_torch():
    x = ea.Tensor([-1.0, 0.5, 2.0])
    assert x.clip(min=0).tolist() == F.clip(x, min=0).tolist() == [0.0, 0.5, 2.0]
    assert x.clip(0, max=1).tolist() == [0.0, 0.5, 1.0]
    with pytest.raises(ea.ConfigError, match="low and min are one bound"):
        x.clip(0, min=1)
    y = x.astype("float32", copy=False)
    y.copy_([1.0, 1.0, 1.0])
    assert x.tolist() == [1.0, 1.0, 1.0]
    assert x.to("cpu", non_blocking=True).tolist() == x.tolist()
