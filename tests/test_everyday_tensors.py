"""Statistics, sorting, parts and rounding of tensors mean the same as in NumPy."""

from __future__ import annotations

import math
import pydoc

import ml_dtypes
import numpy as np
import pytest
from helpers_gradient import check_gradient
from scipy import special

import evolving_attention as ea
from evolving_attention import functional as F

RNG = np.random.default_rng(19)
A = RNG.normal(size=(2, 3, 5))
T = ea.Tensor(A)
HALF = np.float64(2**-8)  # largest relative error of one rounding to bfloat16
NAN, INF = math.nan, math.inf
AXES = [None, 0, -1, (0, 2), [1, -1], (0, 1, 2)]


def key(axis):
    """Returns the axis as NumPy takes it."""
    return tuple(axis) if isinstance(axis, list) else axis


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
    "prod": (lambda x, **k: x.prod(**k), lambda a, **k: a.prod(**k)),
    "logsumexp": (lambda x, **k: x.logsumexp(**k), log_of_sum),
    "F.logsumexp": (lambda x, **k: F.logsumexp(x, **k), log_of_sum),
}


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_are_numpys(name, axis):
    ours, theirs = REDUCTIONS[name]
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


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "int32", "uint8"])
def test_reductions_in_every_type(name, dtype):
    ours, theirs = REDUCTIONS[name]
    x = ea.Tensor(np.abs(A) * 4 + 1, dtype=dtype)
    plain = x.to("float64").numpy()
    found = ours(x, axis=1)
    whole = "int" in dtype
    expected = "int64" if name == "prod" else "float32"
    assert found.dtype == (expected if whole else dtype)
    rtol = HALF if dtype == "bfloat16" else 2e-6  # bfloat16 is rounded once
    np.testing.assert_allclose(found.to("float64"), theirs(plain, axis=1), rtol=rtol)
    if not whole:
        x.requires_grad = True
        ours(x, axis=1).sum().backward()
        assert x.grad.dtype == dtype


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


@pytest.mark.parametrize("name", ["std", "var", "prod", "cumsum"])
def test_numpys_functions_call_the_methods(name):
    x = ea.Tensor(A, requires_grad=True)
    for words in ({}, {"axis": 1}):
        found = getattr(np, name)(x, **words)
        assert isinstance(found, ea.Tensor)
        assert found.requires_grad
        exact = getattr(np, name)(A, **words)
        np.testing.assert_allclose(found.detach(), exact, rtol=1e-12)
    assert np.std(x, ddof=1).item() == x.std().item()
    with pytest.raises(ea.ConfigError, match="leave dtype= out"):
        getattr(np, name)(x, dtype="float32")


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


# --- running sums and order -----------------------------------------------------------


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


# --- parts ----------------------------------------------------------------------------

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


def test_parts_of_nothing():
    nothing = ea.Tensor(np.ones((0, 3)))
    assert [p.shape for p in nothing.split(2)] == [(0, 3)]
    assert [p.shape for p in nothing.split([])] == []
    assert [p.shape for p in nothing.chunk(2)] == [(0, 3)] * 2
    assert nothing.unbind() == ()


# --- not a number ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite"])
def test_kinds_of_numbers_are_numpys(name):
    a = np.array([[1.0, NAN, INF], [-INF, 0.0, -3.0]])
    largest = float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)
    for dtype in ("float64", "float32", "bfloat16"):
        found = getattr(ea.Tensor(a, dtype=dtype), name)()
        assert found.dtype == "uint8"
        assert np.array_equal(found, getattr(np, name)(a))
        edge = ea.Tensor([largest, -largest], dtype=dtype)
        assert getattr(edge, name)().tolist() == [int(name == "isfinite")] * 2
    whole = getattr(ea.Tensor([2**62, 0]), name)()
    assert whole.tolist() == [int(name == "isfinite")] * 2
    assert getattr(ea.Tensor(NAN), name)().item() == int(name == "isnan")


# --- floor division -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "divisor"),
    [
        *((kind, n) for kind in ("int64", "int32", "float64") for n in (2, -2, 3)),
        *((kind, n) for kind in ("float32", "float64") for n in (0.7, -0.3)),
    ],
)
def test_floor_division_is_numpys(dtype, divisor):
    a = np.array([-7, -4, -1, 0, 1, 4, 7, 100]).astype(dtype)
    if "float" in dtype:
        a *= 1.37
    x, other = ea.Tensor(a), np.asarray(divisor, dtype)
    for found, exact in [
        (x // divisor, a // other),
        (x % divisor, a % other),
        (x // ea.Tensor(other), a // other),
        (x % ea.Tensor(np.full((2, 1), other)), a % np.full((2, 1), other)),
        (divisor // x[a != 0], other // a[a != 0]),
        (divisor % x[a != 0], other % a[a != 0]),
    ]:
        assert found.dtype == dtype
        assert found.shape == exact.shape
        np.testing.assert_allclose(
            found, exact, rtol=1e-6 if dtype == "float32" else 1e-14
        )


def test_floor_division_of_special_values():
    a = np.array([1.0, -1.0, 0.0, INF, NAN, -2.0])
    with np.errstate(all="ignore"):
        for divisor in (0.0, INF, -INF, NAN, 1.0):
            x = ea.Tensor(a)
            assert np.array_equal(x // divisor, a // divisor, equal_nan=True)
            assert np.array_equal(x % divisor, a % divisor, equal_nan=True)
    lowest = ea.Tensor([-(2**63)])
    assert (lowest // -1).tolist() == [-(2**63)]
    assert (lowest % -1).tolist() == [0]
    assert (ea.Tensor([200], dtype="uint8") // 7).tolist() == [28]
    half = ea.Tensor([7.5], dtype="bfloat16")
    assert ((half // 2).dtype, (half % 2).item()) == ("bfloat16", 1.5)
    assert (ea.Tensor(np.ones((0, 2))) % 2).shape == (0, 2)


def test_arrays_beside_tensors_stay_tensors():
    x = ea.Tensor([1.5, 2.0], dtype="float64", requires_grad=True)
    found = np.array([7.0, 7.0]) % x
    assert isinstance(found, ea.Tensor)
    assert found.tolist() == [1.0, 1.0]
    found.sum().backward()
    assert x.grad.tolist() == [-4, -3]
    assert isinstance(np.array([7.0, 7.0]) // x, ea.Tensor)


def test_gradients_of_remainders():
    check_gradient(lambda x: x % 0.7, A)
    check_gradient(lambda x, y: x % y, A, np.abs(A[:, :1]) + 0.3)
    check_gradient(lambda x, y: x % y, A[0, 0], np.abs(A) + 0.3)
    assert not (ea.Tensor([1.0], requires_grad=True) // 2).requires_grad


def test_numbers_beside_float64_keep_their_digits():
    x = ea.Tensor([0.7], dtype="float64")
    assert x.item() == ea.Tensor(0.7, dtype="float64").item() == 0.7
    assert (x * 0.1).item() == 0.7 * 0.1
    assert (x - [0.1]).item() == 0.7 - 0.1
    assert (x == 0.7).item() == 1
    assert x.masked_fill([1], 0.1).item() == 0.1
    assert (ea.Tensor([16777217]) == 16777217.0).item() == 1
    assert ea.Tensor([0.7]).dtype == "float32"


# --- one number -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    [..., None, (), (None, ...), (..., None, None), True, np.array(False)],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_one_number_is_indexed(key, dtype):
    x = ea.Tensor(2.5, dtype=dtype)
    exact = x.numpy()[key]
    found = x[key]
    assert found.shape == exact.shape
    assert np.array_equal(found, exact)
    found.copy_(np.full(found.shape, 7))  # parts are copies
    assert np.array_equal(x, 2 if dtype == "int64" else 2.5)
    if dtype == "float64" and exact.size:
        check_gradient(lambda x: x[key], np.array(2.5))


def test_one_number_has_no_axis():
    with pytest.raises(ea.ShapeError, match=r"\[index\] a 0-d tensor"):
        ea.Tensor(1.0)[0]
    with pytest.raises(ea.ShapeError, match=r"\[index\] a 0-d tensor"):
        list(ea.Tensor(1.0))
    with pytest.raises(IndexError, match=r"\[index\]"):
        ea.Tensor(1.0)[:]


# --- errors and help ------------------------------------------------------------------

NONE = ea.Tensor(np.ones((2, 0)))


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
        (lambda: T.prod(7), ea.ShapeError, r"\[prod\].*axis 7|axis 7"),
        (lambda: T.cumsum(3), ea.ShapeError, "axis 3"),
        (lambda: T.cumsum(0, dim=0), ea.ConfigError, "axis and dim"),
        (lambda: T.logsumexp(3), ea.ShapeError, "axis 3"),
        (lambda: T.log_softmax(3), ea.ShapeError, "axis 3"),
        (lambda: F.log_softmax([1, 2]), ea.DTypeError, "got int64"),
        (lambda: T.sort(3), ea.ShapeError, "axis 3"),
        (lambda: ea.Tensor(1.0).argsort(), ea.ShapeError, "axis -1"),
        (lambda: T.topk(6), ea.ShapeError, r"\[topk\] k is 6, expected 0 to 5"),
        (lambda: T.topk(-1), ea.ShapeError, r"\[topk\] k is -1, expected 0"),
        (lambda: T.topk(1.5), ea.ConfigError, "topk: k"),
        (lambda: T.split(0), ea.ShapeError, "split_size is 0, expected at least 1"),
        (lambda: T.split([1, 2], 2), ea.ShapeError, "3 elements together, expected 5"),
        (lambda: T.split([6, -1], 2), ea.ShapeError, "a part has size 6, expected 0"),
        (lambda: T.split("a"), ea.ConfigError, "split: split_size"),
        (lambda: T.chunk(0), ea.ConfigError, r"\[chunk\] chunks is 0"),
        (lambda: T.unbind(3), ea.ShapeError, "axis 3"),
        (lambda: ea.Tensor(1.0).unbind(), ea.ShapeError, "axis 0"),
        (lambda: ea.Tensor([1]) // 0, ea.InputError, r"\[floor_divide\].* by 0"),
        (lambda: 5 % ea.Tensor([1, 0]), ea.InputError, r"\[remainder\].* by 0"),
        (lambda: T % ea.Tensor([1]), ea.DTypeError, "one type, got float64 and int64"),
        (lambda: T // np.ones(2), ea.ShapeError, "broadcast"),
        (lambda: ea.Tensor([1]) // 0.5, ea.DTypeError, "would lose its value"),
    ],
)
def test_mistakes_are_named(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("name", ["var", "topk", "split", "logsumexp", "isnan"])
def test_help_reads_well(name):
    text = pydoc.plain(pydoc.render_doc(getattr(ea.Tensor, name)))
    assert "Example:" in text
    assert "SupportsInt" not in text


def test_a_hand_written_layer_norm():
    x = ea.Tensor(A, requires_grad=True)
    scale = (x.var(dim=-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
    y = (x - x.mean(dim=-1, keepdim=True)) / scale
    exact = F.layer_norm(ea.Tensor(A), np.ones(5), np.zeros(5), 1e-5)
    np.testing.assert_allclose(y.detach(), exact, rtol=1e-10)
