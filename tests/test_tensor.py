"""ea.Tensor: creation, arithmetic, shapes, gradients, and errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers_gradient import check_gradient

import evolving_attention as ea
from evolving_attention import functional as F

DTYPES = ["float32", "bfloat16", "float64", "int64", "int32", "uint8"]
RNG = np.random.default_rng(0)


def leaf(values, dtype="float64"):
    return ea.Tensor(np.asarray(values), dtype=dtype, requires_grad=True)


# --- creation -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (3, "int64", ()),
        (2.5, "float32", ()),
        (True, "bool", ()),
        ([1, 2], "int64", (2,)),
        ([1.0, 2], "float32", (2,)),
        ([[True], [False]], "bool", (2, 1)),
        ([], "float32", (0,)),
        (range(4), "int64", (4,)),
        (np.zeros((2, 0, 3)), "float64", (2, 0, 3)),
        (np.ones(2, np.float16), "float32", (2,)),
        (np.ones(2, np.int8), "int64", (2,)),
        (np.ones(2, np.uint32), "int64", (2,)),
        (np.ones(2, bool), "bool", (2,)),
        (np.float64(1.5), "float64", ()),
    ],
)
def test_element_types_of_data(data, dtype, shape):
    tensor = ea.Tensor(data)
    assert (tensor.dtype, tensor.shape) == (dtype, shape)
    assert np.array_equal(np.asarray(tensor), np.asarray(data, np.float64))
    assert tensor.ndim == len(shape)
    assert tensor.size == math.prod(shape)
    assert not tensor.requires_grad
    assert tensor.grad is None
    assert tensor.is_leaf


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_element_type(dtype):
    tensor = ea.Tensor([[1, 2, 3], [4, 5, 6]], dtype=dtype)
    assert tensor.dtype == dtype
    array = np.asarray(tensor)
    assert array.dtype.name == dtype
    assert array.astype(int).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert tensor.to("float64").numpy().tolist() == [[1, 2, 3], [4, 5, 6]]
    assert tensor[1].shape == (3,)
    assert tensor[1][2].item() == 6
    assert f"dtype={dtype}" in repr(tensor)


@pytest.mark.parametrize(
    "dtype", [np.float32, np.dtype("float32"), "float32", np.float32(0).dtype]
)
def test_dtypes_may_be_numpys(dtype):
    assert ea.Tensor([1, 2], dtype=dtype).dtype == "float32"


WRONG_DATA = {
    "text": ("abc", ea.DTypeError, "expected numbers"),
    "complex": (np.array([1j]), ea.DTypeError, "expected numbers"),
    "objects": ([None], ea.DTypeError, "object"),
    "dates": (np.array(["2020-01-01"], "M8[D]"), ea.DTypeError, "datetime64"),
    "ragged": ([[1, 2], [3]], ea.ShapeError, "rectangular"),
    "nine axes": (np.zeros((1,) * 9), ea.ShapeError, "at most 8 axes"),
    "huge": (2**70, ea.DTypeError, "object"),
    "above int64": ([2**63], ea.DTypeError, "9223372036854775808 does not fit"),
}


@pytest.mark.parametrize("case", WRONG_DATA)
def test_wrong_data(case):
    data, error, message = WRONG_DATA[case]
    with pytest.raises(error, match=message):
        ea.Tensor(data)


@pytest.mark.parametrize("dtype", ["float16", "int8", "f", "", "bool8"])
def test_wrong_dtypes(dtype):
    with pytest.raises(ea.DTypeError, match="expected one of float32, bfloat16"):
        ea.Tensor([1], dtype=dtype)


# --- arithmetic and shapes ------------------------------------------------------------

BINARY = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}


@pytest.mark.parametrize("symbol", BINARY)
@pytest.mark.parametrize(
    ("first", "second"),
    [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((), (2, 3)), ((0, 2), (2,))],
)
def test_arithmetic_is_numpys(symbol, first, second):
    a = RNG.normal(size=first)
    b = RNG.uniform(1, 2, size=second)
    op = BINARY[symbol]
    assert np.allclose(op(ea.Tensor(a), ea.Tensor(b)), op(a, b), atol=1e-15)
    assert np.allclose(op(ea.Tensor(b), 3.0), op(b, 3.0))
    assert np.allclose(op(3.0, ea.Tensor(b)), op(3.0, b))
    assert np.allclose(op(ea.Tensor(a), b), op(a, b))
    assert op(ea.Tensor(b, dtype="float32"), 2).dtype == "float32"


PRODUCTS = [
    ((4,), (4,)),
    ((3, 4), (4,)),
    ((4,), (4, 5)),
    ((2, 3, 4), (4,)),
    ((4,), (2, 4, 5)),
    ((2, 3, 4), (4, 5)),
    ((3, 4), (2, 4, 5)),
    ((2, 3, 4), (1, 4, 5)),
    ((2, 1, 3, 4), (3, 4, 5)),
    ((2, 2, 3, 4), (2, 2, 4, 5)),
    ((2, 0, 4), (4, 5)),
    ((0, 4), (4,)),
    ((0, 3, 4), (1, 4, 5)),
]


@pytest.mark.parametrize("shapes", PRODUCTS, ids=str)
def test_products_of_vectors_and_batches_are_numpys(shapes):
    a, b = (RNG.normal(size=shape) for shape in shapes)
    found = ea.Tensor(a) @ ea.Tensor(b)
    assert found.shape == (a @ b).shape
    np.testing.assert_allclose(found, a @ b, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.matmul(a, ea.Tensor(b)), a @ b, rtol=1e-12)
    if a.ndim > 1:
        turned = F.matmul(ea.Tensor(a).mT, b, transpose_a=True)
        np.testing.assert_allclose(turned, a @ b, rtol=1e-12, atol=1e-12)
    if b.ndim > 1:
        turned = F.matmul(a, ea.Tensor(b).mT, transpose_b=True)
        np.testing.assert_allclose(turned, a @ b, rtol=1e-12, atol=1e-12)
    check_gradient(lambda x, y: x @ y, a, b)


def test_matmul_sum_mean_and_negation():
    a, b = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 4, 5))
    assert np.allclose(ea.Tensor(a) @ ea.Tensor(b), a @ b)
    assert np.allclose(ea.Tensor(a[0]) @ ea.Tensor(b[0]), a[0] @ b[0])
    assert np.allclose(-ea.Tensor(a), -a)
    for axis in (None, 0, 1, 2, -1):
        assert np.allclose(ea.Tensor(a).sum(axis), a.sum(axis))
        found = ea.Tensor(a).mean(axis, keepdims=True)
        assert np.allclose(found, a.mean(axis, keepdims=True))
        assert found.ndim == 3


def test_shapes():
    a = RNG.normal(size=(2, 3, 4))
    t = ea.Tensor(a)
    assert np.array_equal(t.reshape(6, 4), a.reshape(6, 4))
    assert np.array_equal(t.reshape((4, -1)), a.reshape(4, 6))
    assert np.array_equal(t.reshape([24]), a.reshape(24))
    assert np.array_equal(t.transpose(0, 2), a.swapaxes(0, 2))
    assert np.array_equal(t.transpose(-1, -2), a.swapaxes(-1, -2))
    assert np.array_equal(t[1], a[1])
    assert np.array_equal(t[-1:], a[-1:])
    assert np.array_equal(t[0:0], a[0:0])
    assert np.array_equal(t[np.int64(1)], a[1])
    assert len(t) == 2
    assert [row.shape for row in t] == [(3, 4), (3, 4)]
    assert float(ea.Tensor([[2.5]])) == 2.5
    assert ea.Tensor(7).item() == 7


WRONG_USE = {
    "shapes": (lambda t: t + ea.Tensor(np.ones(3)), ea.ShapeError, "broadcast"),
    "types": (lambda t: t + ea.Tensor([1.0, 2.0]), ea.DTypeError, r"\.to\(dtype\)"),
    "integers": (lambda t: ea.Tensor([1]) ** ea.Tensor([2]), ea.DTypeError, "floating"),
    "matmul": (lambda t: t @ t, ea.ShapeError, r"\(4, 2\)"),
    "matmul batches": (
        lambda t: t[None].mT @ F.stack([t, t, t]) @ ea.Tensor(np.ones((2, 2, 1))),
        ea.ShapeError,
        r"\[matmul\] shapes \(3,\) and \(2,\) cannot be broadcast",
    ),
    "matmul of a number": (
        lambda t: t @ ea.Tensor(1.0),
        ea.ShapeError,
        r"expected vectors, matrices .* got \(4, 2\) and \(\)",
    ),
    "transpose of a vector": (
        lambda t: F.matmul(t[0], t, transpose_a=True),
        ea.ShapeError,
        r"a vector has no transpose: shapes \(2,\) and \(4, 2\), expected matrices",
    ),
    "reshape": (lambda t: t.reshape(3, 3), ea.ShapeError, r"\(3, 3\) has 9"),
    "reshape twice": (lambda t: t.reshape(-1, -1), ea.ShapeError, "only one"),
    "reshape below": (lambda t: t.reshape(-2, -4), ea.ShapeError, "negative size -2"),
    "reshape unknown": (lambda t: t.reshape(3, -1), ea.ShapeError, "multiple of 3"),
    "reshape beyond memory": (  # 2^64 elements overflow to 0 in 64 bits
        lambda t: ea.Tensor(np.zeros((0,))).reshape(2**32, 2**32),
        ea.ShapeError,
        "more elements than memory has addresses",
    ),
    "reshape the rest beyond memory": (
        lambda t: t.reshape(2**32, 2**32, -1),
        ea.ShapeError,
        "more elements than memory has addresses",
    ),
    "axis": (lambda t: t.sum(2), ea.ShapeError, "axis 2"),
    "transpose": (lambda t: t.transpose(0, 5), ea.ShapeError, "axis 5"),
    "row": (lambda t: t[4], IndexError, "4 is out of range for 4 rows"),
    "scalar": (lambda t: t.sum()[0], ea.ShapeError, "0-d"),
    "item": (lambda t: t.item(), ea.ShapeError, r"\(4, 2\)"),
    "copy shape": (lambda t: t.copy_(np.ones(3)), ea.ShapeError, "copy"),
    "length": (lambda t: len(t.sum()), TypeError, "0-d"),
    "mean of nothing": (lambda t: t[0:0].mean(), ea.ShapeError, "no elements"),
    "setting a gradient": (
        lambda t: setattr(t, "grad", t[0]),
        ea.ShapeError,
        "gradient is",
    ),
}


@pytest.mark.parametrize("case", WRONG_USE)
def test_wrong_use(case):
    use, error, message = WRONG_USE[case]
    with pytest.raises(error, match=message):
        use(ea.Tensor(np.ones((4, 2))))


def test_copy_in_place_reaches_everybody():
    array = np.zeros((2, 3), np.float32)
    tensor = ea.from_numpy(array)
    view = np.asarray(tensor)
    tensor.copy_([[1, 2, 3], [4, 5, 6]])
    assert array.tolist() == view.tolist() == [[1, 2, 3], [4, 5, 6]]


# --- gradients ------------------------------------------------------------------------


def test_gradients_add_up_until_they_are_cleared():
    x = leaf([1.0, 2.0])
    for times in (1, 2, 3):
        (x * x).sum().backward()
        assert np.asarray(x.grad).tolist() == [2.0 * times, 4.0 * times]
    x.grad = None
    assert x.grad is None
    x.grad = ea.Tensor([1.0, 1.0], dtype="float64")
    (x * 2.0).sum().backward()
    assert np.asarray(x.grad).tolist() == [3.0, 3.0]


def test_a_tensor_used_many_times_sums_its_gradients():
    x = leaf(RNG.normal(size=5))
    y = x * x + x * 3.0 + x / 2.0 - x
    z = y * y + y
    z.sum().backward()
    value = np.asarray(x)
    inner = value**2 + 2.5 * value
    assert np.allclose(x.grad, (2 * inner + 1) * (2 * value + 2.5))


def test_a_gradient_belongs_to_its_leaf_alone():
    # add() gives both inputs the same gradient; writing to one must not change both.
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    seed = ea.Tensor([1.0, 1.0], dtype="float64")
    (x + y).backward(seed)
    np.asarray(x.grad)[:] = 9
    assert np.asarray(y.grad).tolist() == [1, 1]
    assert np.asarray(seed).tolist() == [1, 1]
    z = leaf([1.0, 2.0])
    z.reshape(2, 1).backward(ones := ea.Tensor(np.ones((2, 1))))
    np.asarray(z.grad)[:] = 9
    assert np.asarray(ones).tolist() == [[1], [1]]


def test_a_gradient_that_is_held_does_not_change_when_more_is_added():
    x = leaf([1.0, 2.0])
    (x * x).sum().backward()
    held, view = x.grad, np.asarray(x.grad)
    (x * x).sum().backward()
    assert np.asarray(held).tolist() == view.tolist() == [2, 4]
    assert np.asarray(x.grad).tolist() == [4, 8]


def test_shared_gradients_are_not_added_to_in_place():
    # add() sends one gradient to two inputs; each then accumulates another one.
    seed = ea.Tensor([1.0, -1.0], dtype="float64")
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    a, b = x * 1.0, y * 1.0
    ((a + b) + (a * 2.0 + b * 5.0) + a).backward(seed)
    assert np.asarray(x.grad).tolist() == [4, -4]
    assert np.asarray(y.grad).tolist() == [6, -6]
    assert np.asarray(seed).tolist() == [1, -1]


def test_backward_of_a_leaf_is_its_seed():
    x = leaf(2.0)
    x.backward()
    assert x.grad.item() == 1


def test_broadcast_inputs_get_summed_gradients():
    a, b = leaf(np.ones((3, 1))), leaf(np.ones((1, 4)))
    ((a + b) * np.arange(12.0).reshape(3, 4)).sum().backward()
    assert np.asarray(a.grad).tolist() == [[6], [22], [38]]
    assert np.asarray(b.grad).tolist() == [[12, 15, 18, 21]]


def test_no_grad_of_a_generator_covers_its_steps_alone():
    x = leaf([1.0])

    @ea.no_grad()
    def halves(count):
        """Halves."""
        given = None
        try:
            for _ in range(count):
                given = yield x * 0.5 if given is None else x * given
        except KeyError:
            yield x * 4.0
        return "end"

    steps = halves(9)
    made = [next(steps), steps.send(3.0), steps.throw(KeyError("stop"))]
    assert [y.item() for y in made] == [0.5, 3.0, 4.0]
    assert not any(y.requires_grad for y in made)
    assert (x * 2.0).requires_grad
    with pytest.raises(StopIteration, match="end"):
        next(steps)
    assert halves.__doc__ == "Halves."
    steps = halves(9)
    next(steps)
    steps.close()


def test_no_grad_as_context_and_decorator():
    x = leaf([1.0])

    @ea.no_grad()
    def double(depth):
        y = x * 2.0
        return double(depth - 1) if depth else y

    assert not double(2).requires_grad
    with ea.no_grad():
        inside = x * 2.0
        with ea.no_grad():
            pass
        assert not (x * 2.0).requires_grad
    assert not inside.requires_grad
    assert (x * 2.0).requires_grad
    with pytest.raises(RuntimeError, match="stop"), ea.no_grad():
        raise RuntimeError("stop")
    assert (x * 2.0).requires_grad


def test_detach_cuts_the_graph_and_shares_the_data():
    x = leaf([1.0, 2.0])
    y = (x * 3.0).detach()
    assert y.is_leaf
    assert not y.requires_grad
    np.asarray(x.detach())[0] = 7
    assert np.asarray(x).tolist() == [7, 2]


def gone(x):
    y = (x * x).sum()
    y.backward()
    y.backward()


WRONG_BACKWARD = {
    "twice": (gone, ea.InputError, "graph"),
    "no graph": (lambda x: ea.Tensor([1.0]).backward(), ea.InputError, "requires_grad"),
    "not one element": (lambda x: (x * x).backward(), ea.ShapeError, "one-element"),
    "seed shape": (
        lambda x: (x * x).backward(ea.Tensor(np.ones(3))),
        ea.ShapeError,
        "gradient is",
    ),
    "integers": (
        lambda x: ea.Tensor([1], requires_grad=True),
        ea.DTypeError,
        "no gradient",
    ),
    "not a leaf": (
        lambda x: setattr(x * x, "requires_grad", False),
        ea.InputError,
        "leaf",
    ),
}


@pytest.mark.parametrize("case", WRONG_BACKWARD)
def test_wrong_backward(case):
    use, error, message = WRONG_BACKWARD[case]
    with pytest.raises(error, match=message):
        use(leaf([1.0, 2.0]))


def write_by_a_step(w):
    w.grad = ea.Tensor([1.0])
    ea.optim.SGD([w], lr=1.0).step()


WRITES = {
    "a step": write_by_a_step,
    "copy_": lambda w: w.copy_([100.0]),
    "add_": lambda w: w.add_(ea.Tensor([1.0])),
}


@pytest.mark.parametrize("write", WRITES)
def test_what_backward_needs_may_not_be_written_after_the_forward_pass(write):
    x, w = (ea.Tensor([v], requires_grad=True) for v in (2.0, 3.0))
    y, unread = x * w, x + w
    WRITES[write](w)
    with pytest.raises(ea.InputError, match=r"'mul' needs was written after"):
        y.backward()
    unread.backward()  # its gradient does not depend on the written values
    assert x.grad.tolist() == [1]


def test_what_backward_needs_may_be_looked_at():
    x = ea.Tensor([2.0], requires_grad=True)
    y = x * x
    assert x.numpy().tolist() == x.tolist() == [2]
    y.backward()
    assert x.grad.tolist() == [4]


def test_a_graph_frees_its_memory():
    from evolving_attention import _core

    x = leaf(np.ones(1000))
    before = _core.current_memory()
    y = F.relu(x * x)
    for _ in range(50):
        y = y * x
    y.sum().backward()
    x.grad = None
    del y
    assert _core.current_memory() == before


def test_a_deep_graph_does_not_overflow_the_stack():
    x = leaf([1.0])
    y = x
    for _ in range(100_000):
        y = y + x
    z = y * 1.0
    del y
    z.backward()
    assert x.grad.item() == 100_001
    w = x
    for _ in range(100_000):
        w = w + x
    del w  # no backward: nodes are freed one by one


def test_tensors_hash_by_identity():
    a, b = ea.Tensor([1.0]), ea.Tensor([1.0])
    assert len({a, b, a}) == 2
    assert hash(a) != hash(b)
