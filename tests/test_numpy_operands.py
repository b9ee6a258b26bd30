"""NumPy numbers, arrays and ufuncs with a Tensor: no operator drops the gradient."""

from __future__ import annotations

import itertools
import operator
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from helpers_models import NO_DROPOUT, draw, labels_for, tiny

import evolving_attention as ea

ELEMENTWISE = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
# Relative error of a gradient after one or two roundings; differences err by 1e-9.
BOUNDS = {"float64": 1e-8, "float32": 1e-6, "bfloat16": 2**-6}
NUMPY_TYPES = [
    *(np.float16, np.float32, np.float64, np.longdouble, ml_dtypes.bfloat16),
    *(np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32),
    *(np.uint64, np.bool_),
]
# Exact in bfloat16, and all non-zero.
X = np.array([[1.0, -1.5, 2.0], [0.75, 4.0, 1.25]])
VALUES = np.array([[1, 2, 3], [3, 1, 2]])


def others(kind):
    """Returns valid other operands: a number, and arrays of every layout."""
    values = VALUES.astype(kind)
    return {
        "number": kind(1),
        "0-d": np.array(1, kind),
        "array": values,
        "row": values[0],
        "strided": np.repeat(values, 2, axis=1)[:, ::2],
    }


def differences(function, x, cotangent):
    """Returns central differences of sum(cotangent * function(x)) in float64."""
    gradient = np.zeros(x.shape)
    for place in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[place] = 1e-5
        rise = function(x + step) - function(x - step)
        gradient[place] = (cotangent * rise).sum() / 2e-5
    return gradient


def check(function, x, other, left, dtype):
    """Checks value and gradient of one operator, with the tensor on one side."""
    tensor = ea.Tensor(x, dtype=dtype, requires_grad=True)
    found = function(other, tensor) if left else function(tensor, other)
    assert type(found) is ea.Tensor
    assert found.dtype == dtype
    assert found.requires_grad
    exact = np.asarray(other).astype(np.float64)

    def numpys(x):
        return function(exact, x) if left else function(x, exact)

    bound = BOUNDS[dtype]
    np.testing.assert_allclose(found.to("float64").detach(), numpys(x), rtol=bound)
    cotangent = np.arange(1.0, found.size + 1).reshape(found.shape)
    found.backward(ea.Tensor(cotangent, dtype=dtype))
    np.testing.assert_allclose(
        tensor.grad.to("float64"), differences(numpys, x, cotangent), rtol=bound
    )


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("kind", NUMPY_TYPES, ids=lambda kind: kind.__name__)
def test_elementwise_operators_keep_the_gradient(kind, dtype):
    cases = itertools.product(ELEMENTWISE.values(), others(kind).values(), (1, 0))
    for function, other, left in cases:
        check(function, X, other, left, dtype)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("kind", NUMPY_TYPES, ids=lambda kind: kind.__name__)
def test_products_of_matrices_keep_the_gradient(kind, dtype):
    values = VALUES.astype(kind)
    for other, left in ((values.T, True), (values.T, False)):
        check(operator.matmul, X, other, left, dtype)


@pytest.mark.parametrize("dtype", BOUNDS)
def test_ufuncs_of_operators_are_operators(dtype):
    names = ("add", "subtract", "multiply", "divide", "true_divide")
    for name, left in itertools.product(names, (True, False)):
        check(getattr(np, name), X, VALUES.astype(np.float64), left, dtype)
    check(np.matmul, X, VALUES.T.astype(np.float32), True, dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_powers_keep_the_gradient(dtype):
    positive = np.abs(X)
    for other, left in (
        *((VALUES.astype(np.float64), left) for left in (True, False)),
        *((np.float64(3), left) for left in (True, False)),
    ):
        check(operator.pow, positive, other, left, dtype)
        check(np.power, positive, other, left, dtype)


def test_both_operands_get_gradients():
    a = ea.Tensor(X, requires_grad=True)
    b = ea.Tensor(X, requires_grad=True)
    np.multiply(a, b).sum().backward()
    assert np.array_equal(a.grad, X)
    assert np.array_equal(b.grad, X)


def test_operators_in_place():
    t = ea.Tensor(X, requires_grad=True)
    own = t * 1.0
    for name in ("iadd", "isub", "imul", "itruediv"):
        own = getattr(operator, name)(own, np.float64(2))
        assert type(own) is ea.Tensor
        assert own.requires_grad
    own.sum().backward()
    assert np.array_equal(t.grad, np.ones(X.shape))
    for name in ("iadd", "isub", "imul", "itruediv"):
        array = X.copy()
        with pytest.raises(ea.InputError, match="for a \\+= t write a = a \\+ t"):
            getattr(operator, name)(array, t)
        assert np.array_equal(array, X)
        same = getattr(operator, name)(array, t.detach())
        assert same is array


LOSING = {
    "exp": lambda t: np.exp(t),
    "fmod": lambda t: np.fmod(X, t),
    "negative": lambda t: np.negative(t),
    "reduce": lambda t: np.add.reduce(t),
    "outer": lambda t: np.multiply.outer(X, t),
    "accumulate": lambda t: np.add.accumulate(t),
    "out": lambda t: np.add(X, t, out=np.empty(X.shape)),
    "where": lambda t: np.multiply(X, t, where=X > 1, out=np.zeros(X.shape)),
    "clip": lambda t: np.clip(t, 0, 1),
    "np.where": lambda t: np.where(X > 1, t, 0),
    "stack": lambda t: np.stack([X, t]),
    "dot": lambda t: np.dot(X.T, t),
    "einsum": lambda t: np.einsum("ij,ij", t, X),
    "norm": lambda t: np.linalg.norm(t),
    "median": lambda t: np.median(t),
    "concatenate": lambda t: np.concatenate((t, X), axis=0),
}


@pytest.mark.parametrize("name", LOSING)
def test_other_ufuncs_refuse_to_lose_a_gradient(name):
    t = ea.Tensor(X, requires_grad=True)
    with pytest.raises(ea.InputError, match=r"np\.\w+ would lose.*\.detach\(\)"):
        LOSING[name](t)
    with pytest.raises(ea.InputError, match="would lose"):
        LOSING[name](t * 2.0)
    found = LOSING[name](t.detach())
    assert type(found) is type(LOSING[name](X))
    assert np.array_equal(found, LOSING[name](X))
    with ea.no_grad():
        assert np.array_equal(LOSING[name](t), found)


def test_functions_that_are_methods_keep_the_gradient():
    t = ea.Tensor(X, requires_grad=True)
    for function in (np.sum, np.mean, np.max):
        assert function(t).requires_grad
        assert np.isclose(function(t).item(), function(X))
    assert np.transpose(t).requires_grad


def test_what_has_no_gradient_is_numpys():
    t = ea.Tensor(X, requires_grad=True)
    assert np.array_equal(np.asarray(t), X)
    assert np.array_equal(np.float64(1) < t, X > 1)
    assert np.array_equal(np.equal(VALUES, t), VALUES == X)
    assert np.isfinite(t).all()
    assert np.allclose(t, X)
    assert np.argmax(t) == X.argmax()
    assert np.array_equal(np.zeros_like(t), np.zeros_like(X))
    labels = ea.Tensor([1, 2, 3])
    assert (np.array([1, 1, 1]) + labels).tolist() == [2, 3, 4]
    with pytest.raises(ea.InputError, match=r"out of np\.add is a tensor"):
        np.add(X, X, out=t)
    with pytest.raises(ea.ShapeError, match="broadcast"):
        np.ones(4) + t
    with pytest.raises(ea.DTypeError, match="expected numbers"):
        np.array(["a", "b", "c"]) + t


# --- an attention kind that mixes with NumPy numbers --------------------------------


@ea.attention.register("mixing_by_numpy")
@dataclass(frozen=True)
class Mixing(ea.attention.CustomEvolve):
    """(1 - a) S + a M, with a from np.linspace or as a Python number."""

    plain: bool = False

    def step(self, scores, previous, context):
        if previous is None:
            return scores
        a = np.linspace(0, 0.5, context.num_layers)[context.layer]
        if self.plain:
            a = float(a)
        return (1 - float(a)) * scores + a * previous


def test_a_custom_kind_may_mix_by_numpys_numbers():
    batch = draw((5, 3, 6))
    gradients = []
    for plain in (False, True):
        model = tiny(attention=Mixing(plain), dtype="float64", **NO_DROPOUT)
        inputs = {**batch.packed(), "labels": labels_for(model, batch)}
        model(**inputs).loss.backward()
        gradients.append({n: np.asarray(t.grad) for n, t in model.named_parameters()})
    for name, gradient in gradients[0].items():
        assert np.array_equal(gradient, gradients[1][name]), name
    for layer in range(3):
        name = f"bert.encoder.layer.{layer}.attention.self.query.weight"
        array = np.asarray(dict(model.named_parameters())[name])
        gradient = gradients[0][name]
        place = np.unravel_index(np.abs(gradient).argmax(), gradient.shape)
        sides = []
        for step in (1e-5, -1e-5):
            array[place] += step
            sides.append(model(**inputs).loss.item())
            array[place] -= step
        numeric = (sides[0] - sides[1]) / 2e-5
        assert abs(gradient[place] - numeric) <= 1e-6 * abs(numeric)


LISTS = {
    "function": lambda t: ea.functional.relu([t, t]),
    "left": lambda t: t * [t, t],
    "right": lambda t: [t, t] / t,
    "nested": lambda t: t - [[t], [t]],
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_tensors_may_not_lose_a_gradient(name):
    t = ea.Tensor(X, requires_grad=True)
    with pytest.raises(ea.InputError, match=r"list of tensors.*functional\.stack"):
        LISTS[name](t)
    want = LISTS[name](t.detach())
    with ea.no_grad():
        assert np.array_equal(np.asarray(LISTS[name](t)), np.asarray(want))
    assert (t + X.tolist()).requires_grad
