"""Common lines of tensor code mean the same as in NumPy and PyTorch."""

from __future__ import annotations

import math
import pydoc

import ml_dtypes
import numpy as np
import pytest
from helpers_gradient import check_gradient

import evolving_attention as ea
from evolving_attention import functional as F

RNG = np.random.default_rng(5)
A = RNG.normal(size=(3, 4, 5))
NAN, INF = math.nan, math.inf
DTYPES = ["float32", "bfloat16", "float64", "int64", "int32", "uint8"]


# --- one number -----------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_element_is_a_number(dtype, shape):
    t = ea.Tensor(np.full(shape, 2.75), dtype=dtype)
    value = 2.75 if "float" in dtype else 2
    assert type(t.item()) is type(value)
    assert t.item() == float(t) == value
    assert int(t) == 2
    assert bool(t) is True
    assert bool(t * 0 if "float" in dtype else t == 5) is False
    assert f"{t:.3f}" == f"{value:.3f}"
    assert f"{t:8.2e}" == f"{value:8.2e}"
    assert round(t, 1) == round(value, 1)
    assert round(t) == round(value)


def test_a_number_is_written_as_one():
    assert f"{ea.Tensor(0.25)}" == "0.25"
    assert f"{ea.Tensor([0.25])}" == "Tensor([0.25], dtype=float32)"
    assert f"{ea.Tensor([1.0, 2.0])}" == "Tensor([1., 2.], dtype=float32)"
    assert f"{ea.Tensor(float('nan')):.2f}" == "nan"


def test_large_integers_stay_exact():
    t = ea.Tensor([2**60 + 1, 2**60])
    assert t[0].item() == 2**60 + 1
    assert (t == 2**60).tolist() == [0, 1]
    assert t.argmax().item() == 0


def test_integers_are_indices():
    names = ["a", "b", "c"]
    assert names[ea.Tensor([0.5, 0.1, 2.0]).argmax()] == "c"
    with pytest.raises(TypeError, match="integer tensors with one element"):
        names[ea.Tensor(1.0)]


@pytest.mark.parametrize("many", [[1.0, 2.0], []])
def test_many_elements_are_no_number(many):
    t = ea.Tensor(many, dtype="float32")
    with pytest.raises(ea.InputError, match=r"neither true nor false; expected one"):
        bool(t)
    with pytest.raises(ea.InputError, match=r"'\.3f' formats one number"):
        f"{t:.3f}"
    for use in (int, float, round):
        with pytest.raises(ea.ShapeError, match=r"\[item\] expected one element"):
            use(t)


# --- comparisons ----------------------------------------------------------------------

COMPARISONS = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@pytest.mark.parametrize("symbol", COMPARISONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_comparisons_are_numpys(dtype, symbol):
    a = np.array([[0, 1, 2], [3, 1, 0]])
    b = np.array([1, 1, 2])
    op = COMPARISONS[symbol]
    t, other = ea.Tensor(a, dtype=dtype), ea.Tensor(b, dtype=dtype)
    for found, exact in [
        (op(t, other), op(a, b)),
        (op(t, b), op(a, b)),
        (op(t, 1), op(a, 1)),
        (op(1, t), op(1, a)),
        (op(t, a[:, :1]), op(a, a[:, :1])),
        (op(t, t.tolist()), op(a, a)),
    ]:
        assert found.dtype == "bool"
        assert not found.requires_grad
        assert np.array_equal(found, exact)


def test_comparisons_of_special_values():
    nan = ea.Tensor([float("nan"), 1.0, float("inf")])
    assert (nan == nan).tolist() == [0, 1, 1]
    assert (nan != nan).tolist() == [1, 0, 0]
    assert (nan < nan).tolist() == [0, 0, 0]
    assert (ea.Tensor([0, 1]) == 0.5).tolist() == [0, 0]
    assert (ea.Tensor([0.1], dtype="bfloat16") == 0.1).tolist() == [1]
    assert (ea.Tensor([0, 1]) < ea.Tensor([0.5])).tolist() == [1, 0]


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite"])
def test_kinds_of_numbers_are_numpys(name):
    a = np.array([[1.0, NAN, INF], [-INF, 0.0, -3.0]])
    largest = float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)
    for dtype in ("float64", "float32", "bfloat16"):
        found = getattr(ea.Tensor(a, dtype=dtype), name)()
        assert found.dtype == "bool"
        assert np.array_equal(found, getattr(np, name)(a))
        edge = ea.Tensor([largest, -largest], dtype=dtype)
        assert getattr(edge, name)().tolist() == [int(name == "isfinite")] * 2
    whole = getattr(ea.Tensor([2**62, 0]), name)()
    assert whole.tolist() == [int(name == "isfinite")] * 2
    assert getattr(ea.Tensor(NAN), name)().item() == int(name == "isnan")


def test_comparing_with_other_things():
    t = ea.Tensor([1.0, 2.0])
    assert (t == None) is False  # noqa: E711
    assert (t != "word") is True
    with pytest.raises(TypeError, match="not supported between"):
        t < "word"  # noqa: B015
    with pytest.raises(ea.ShapeError, match="broadcast"):
        t == [1.0, 2.0, 3.0]  # noqa: B015


def test_identity_in_sets_and_dicts():
    a, b = ea.Tensor([1.0, 2.0]), ea.Tensor([1.0, 2.0])
    assert len({a, b, a}) == 2
    names = {a: "a", b: "b"}
    assert (names[a], names[b]) == ("a", "b")
    assert a in [a, b]


def test_counting_what_is_right():
    pred, labels = ea.Tensor([1, 0, 2, 2]), np.array([1, 1, 2, 0])
    right = pred == labels
    assert right.sum().item() == 2
    assert right.mean().item() == 0.5
    assert right.sum().dtype == "int64"
    assert right.mean().dtype == "float32"
    grid = np.arange(6).reshape(2, 3)
    assert ea.Tensor(grid).sum(axis=0).tolist() == grid.sum(axis=0).tolist()


# --- selection ------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_extremes_are_numpys(dtype, axis, keep):
    a = np.round(A * 3) + 10  # has ties
    t = ea.Tensor(a, dtype=dtype)
    for name in ("max", "min", "argmax", "argmin"):
        found = getattr(t, name)(axis, keepdims=keep)
        exact = getattr(a, name)(axis, keepdims=keep)
        assert found.shape == exact.shape
        assert np.array_equal(found.to("float64"), exact)
        assert found.dtype == ("int64" if "arg" in name else dtype)
    assert np.array_equal(F.max(t, axis).to("float64"), a.max(axis))
    assert np.array_equal(F.min(t, axis).to("float64"), a.min(axis))


def test_nan_wins():
    t = ea.Tensor([[1.0, float("nan"), 3.0, float("nan")]])
    for name in ("argmax", "argmin"):
        assert getattr(t, name)(-1).tolist() == [1]
    assert np.isnan(t.max().item())


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("axis", [None, 0, 1, 2])
def test_gradients_of_extremes(name, axis):
    check_gradient(lambda x: getattr(x, name)(axis), A)
    x = ea.Tensor([2.0, 5.0, 5.0], requires_grad=True)
    x.max().backward()
    assert x.grad.tolist() == [0, 1, 0]


def test_abs_clip_and_where():
    t = ea.Tensor(A)
    assert np.array_equal(abs(t), np.abs(A))
    assert np.array_equal(t.abs(), F.abs(t))
    assert np.array_equal(t.clip(-0.5, 0.5), np.clip(A, -0.5, 0.5))
    assert np.array_equal(t.clip(low=0), np.maximum(A, 0))
    assert np.array_equal(F.clip(t, high=0), np.minimum(A, 0))
    assert np.array_equal(F.where(t > 0, t, 0.0), np.where(A > 0, A, 0))
    assert np.array_equal(F.where(A > 0, 1.0, t), np.where(A > 0, 1, A))
    row = RNG.normal(size=(4, 1))
    assert np.array_equal(F.where(A > 0, row, ea.Tensor(A)), np.where(A > 0, row, A))
    check_gradient(abs, A)
    check_gradient(lambda x: x.clip(-0.5, 0.7), A)
    check_gradient(lambda x, y: F.where(A > 0, x, y), A, row)


def test_choices_keep_what_is_not_chosen_out():
    x = ea.Tensor([0.0, 1.0, float("nan")], requires_grad=True)
    y = F.where(x == x, x, 0.0)
    assert y.tolist() == [0, 1, 0]
    y.sum().backward()
    assert x.grad.tolist() == [1, 1, 0]
    zero = ea.Tensor([0.0, -2.0, 3.0], requires_grad=True)
    abs(zero).sum().backward()
    assert zero.grad.tolist() == [0, -1, 1]
    special = ea.Tensor([float("nan"), float("-inf"), float("inf")])
    assert np.isnan(special.clip(-1, 1)[0].item())
    assert special.clip(-1, 1)[1:].tolist() == [-1, 1]
    assert np.array_equal(abs(special), [np.nan, np.inf, np.inf], equal_nan=True)


WRONG = {
    "no elements": (lambda t: t[0:0].max(), ea.ShapeError, "no elements"),
    "axis": (lambda t: t.argmax(7), ea.ShapeError, "axis 7"),
    "no bound": (lambda t: t.clip(), ea.ConfigError, "expected at least one number"),
    "bounds": (lambda t: t.clip(2, 1), ea.ConfigError, "low 2 is above high 1"),
    "types": (
        lambda t: F.where(t > 0, t, ea.Tensor([1.0], dtype="bfloat16")),
        ea.DTypeError,
        "expected two tensors of one type",
    ),
    "two axes": (lambda t: t.sum(axis=0, dim=1), ea.ConfigError, "axis and dim"),
    "integer power": (lambda t: (t > 0).pow(2), ea.DTypeError, "floating"),
    "size": (lambda t: t.size(3), ea.ShapeError, "axis 3"),
    "options of NumPy": (
        lambda t: np.sum(t, where=np.asarray(t) > 0),
        ea.ConfigError,
        r"np\.sum of a tensor .*\['where'\].*\.numpy\(\)",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use(case):
    use, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        use(ea.Tensor(A))


# --- powers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "exponent", [0, 1, 2, 3, 7, -1, -2, 0.5, 1.5, -0.5, 2.3, 70, -1.7]
)
def test_powers_are_numpys(exponent):
    a = np.abs(A) + 0.3
    assert np.allclose(ea.Tensor(a) ** exponent, a**exponent, rtol=1e-14)
    single = ea.Tensor(a, dtype="float32")
    exact = np.asarray(single, np.float64) ** exponent
    few = 4e-7 if abs(exponent) < 10 else 1e-5
    assert np.allclose(single**exponent, exact, rtol=few)
    half = ea.Tensor(a, dtype="bfloat16") ** exponent
    exact = np.asarray(ea.Tensor(a, dtype="bfloat16").to("float64")) ** exponent
    assert half.dtype == "bfloat16"
    assert np.allclose(half.to("float64"), exact, rtol=2**-7)
    if abs(exponent) < 10:
        check_gradient(lambda x: x**exponent, a)


def test_powers_of_zero_and_negative_numbers():
    x = ea.Tensor([0.0, -2.0], requires_grad=True)
    (x**2).sum().backward()
    assert x.grad.tolist() == [0, -4]
    zero = ea.Tensor([0.0], requires_grad=True)
    (zero**1.5 + zero**2.5 + zero**2.3 + zero**0).backward()
    assert zero.grad.tolist() == [0]
    assert (ea.Tensor([-2.0]) ** 3).tolist() == [-8]
    assert np.isnan((ea.Tensor([-2.0]) ** 0.5).item())
    signs = [np.signbit((ea.Tensor([-0.0]) ** p).item()) for p in (0.5, 2.5, -2.5, -1)]
    assert signs == [False, False, False, True]


def test_powers_with_tensors_in_the_exponent():
    a, p = np.abs(A[0]) + 0.3, A[1]
    assert np.allclose(ea.Tensor(a) ** ea.Tensor(p), a**p)
    assert np.allclose(ea.Tensor(a) ** p, a**p)
    assert np.allclose(2 ** ea.Tensor(p), 2**p)
    check_gradient(lambda x, y: x**y, a, p)
    check_gradient(lambda y: 2.0**y, p)
    check_gradient(lambda x, y: x**y, a[:, None], p[:2])


def test_tensors_in_the_exponent_of_zero_and_negative_numbers():
    x = ea.Tensor([0.0, 0.0, 0.0, -2.0], requires_grad=True)
    p = ea.Tensor([2.0, 1.0, 0.0, 3.0], requires_grad=True)
    y = x**p
    y.sum().backward()
    assert y.tolist() == [0, 0, 1, -8]
    assert x.grad.tolist() == [0, 1, 0, 12]
    assert p.grad.tolist()[:3] == [0, 0, 0]
    assert np.isnan((ea.Tensor([-2.0]) ** ea.Tensor([0.5])).item())


@pytest.mark.parametrize("name", ["sum", "mean"])
def test_sums_of_bfloat16_over_several_axes_are_rounded_once(name):
    x = ea.Tensor(np.ones((1000, 257)), dtype="bfloat16", requires_grad=True)
    y = getattr(x, name)(axis=(0, 1))
    assert y.dtype == "bfloat16"
    assert y.item() == getattr(x, name)().item()
    y.backward()
    assert x.grad.dtype == "bfloat16"


# --- indexing -------------------------------------------------------------------------

KEYS = {
    "row": 1,
    "negative": -1,
    "slice": slice(1, None),
    "step": slice(None, None, 2),
    "backwards": slice(None, None, -1),
    "column": (slice(None), 0),
    "last column": (slice(None), -1),
    "element": (0, 1, -2),
    "ranges": (slice(0, 2), slice(1, 3), slice(2, 4)),
    "ellipsis": (Ellipsis, 0),
    "ellipsis first": (0, Ellipsis),
    "ellipsis amid": (0, Ellipsis, slice(1, 3)),
    "new axis": (slice(None), None, 0),
    "only new": None,
    "integers": [2, 0, 0],
    "integers later": (slice(None), [3, 1]),
    "pairs": ([0, 2], [1, 1]),
    "apart": ([0, 2], slice(None), [1, 1]),
    "grid": np.array([[0, 1], [2, 0]]),
    "mask": np.array([True, False, True]),
    "list mask": [True, False, True],
    "wide mask": A[:, :, 0] > 0,
    "full mask": A > 0,
    "nothing": slice(2, 2),
    "no rows": [],
    "all": (),
    "numpy integer": np.int64(2),
}


@pytest.mark.parametrize("case", KEYS)
def test_indexing_is_numpys(case):
    key = KEYS[case]
    exact = A[np.array([], int) if case == "no rows" else key]
    found = ea.Tensor(A)[key]
    assert found.shape == exact.shape
    assert np.array_equal(found, exact)
    for dtype in DTYPES:
        assert ea.Tensor(A, dtype=dtype)[key].dtype == dtype
    if exact.size:
        check_gradient(lambda x: x[key], A)


def test_indexing_by_tensors():
    t = ea.Tensor(A, requires_grad=True)
    assert np.array_equal(t[t > 0].detach(), A[A > 0])
    assert np.array_equal(t[ea.Tensor([2, 0])].detach(), A[[2, 0]])
    rows, best = np.arange(3), ea.Tensor(A[:, 0].argmax(-1))
    assert np.array_equal(t[rows, 0, best].detach(), A[:, 0].max(-1))
    t[t > 0].sum().backward()
    assert np.array_equal(t.grad, (A > 0).astype(float))


def test_a_part_is_a_copy():
    t = ea.Tensor([1.0, 2.0])
    t[:].copy_([5.0, 5.0])
    t[...].copy_([5.0, 5.0])
    assert t.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (3, "3 is out of range for 3 rows"),
        ((0, 9), "9 is out of range"),
        ((0, 0, 0, 0), "too many indices"),
        ([0, 3], "index 3 is out of bounds for axis 0"),
        (np.array([True, False]), "boolean"),
    ],
)
def test_wrong_keys(key, message):
    with pytest.raises(IndexError, match=r"\[index\].*" + message):
        ea.Tensor(A)[key]


@pytest.mark.parametrize("key", ["word", 1.5, (0, "word")])
def test_keys_of_wrong_types(key):
    said = r"\[index\] a .* is not an index; expected"
    with pytest.raises(ea.InputError, match=said):
        ea.Tensor(A)[key]


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
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        list(ea.Tensor(1.0))
    with pytest.raises(IndexError, match=r"\[index\]"):
        ea.Tensor(1.0)[:]


# --- names from other libraries -------------------------------------------------------


def test_dim_is_axis():
    t = ea.Tensor(A)
    for name in ("sum", "mean", "max", "min", "argmax", "argmin"):
        for axis in (0, -1):
            exact = getattr(A, name)(axis)
            assert np.allclose(getattr(t, name)(dim=axis), exact)
            kept = getattr(t, name)(dim=axis, keepdim=True)
            assert np.allclose(kept, np.expand_dims(exact, axis))
            if hasattr(F, name):
                assert np.allclose(getattr(F, name)(t, dim=axis), exact)
    assert np.array_equal(F.concat([t, t], dim=1), np.concatenate([A, A], 1))
    assert np.array_equal(F.concat([t, t]), np.concatenate([A, A]))
    for axis in (0, 1, -1):
        shares = np.exp(A) / np.exp(A).sum(axis, keepdims=True)
        assert np.allclose(F.softmax(t, dim=axis), shares)
        assert np.allclose(F.softmax(t, axis), shares)
    check_gradient(lambda x: F.softmax(x, dim=0), A[0])


def test_torchs_words():
    t = ea.Tensor(A, requires_grad=True)
    assert t.tolist() == A.tolist()
    assert ea.Tensor(3).tolist() == 3
    halves = ea.Tensor([0.5, 1.5], dtype="bfloat16")
    assert halves.tolist() == [0.5, 1.5]
    assert t.numel() == t.size == 60
    assert t.size() == t.shape == (3, 4, 5)
    assert t.size(-1) == t.size(dim=2) == 5
    assert np.zeros(t.size).shape == (60,)
    assert isinstance(t.size, int)
    assert t.cpu().device == "cpu"
    assert t.cpu().requires_grad


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.int64, np.int32, np.uint8, ml_dtypes.bfloat16]
)
def test_tensor_copies_and_from_numpy_shares(dtype):
    array = np.ones(3, dtype)
    copy, shared = ea.Tensor(array), ea.from_numpy(array)
    again = ea.Tensor(shared)
    array[0] = 7
    assert copy.tolist() == again.tolist() == [1, 1, 1]
    assert shared.tolist() == [7, 1, 1]
    shared.copy_([2, 2, 2])
    assert array.tolist() == [2, 2, 2]


def test_tensor_copies_what_other_libraries_lend():
    torch = pytest.importorskip("torch")
    theirs = torch.ones(2)
    ours = ea.Tensor(theirs)
    theirs[0] = 5
    assert ours.tolist() == [1, 1]


def frozen():
    array = np.ones(3)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "array", [np.ones(3, np.int8), np.ones((2, 3)).T, frozen(), np.ones(2, np.float16)]
)
def test_what_cannot_be_shared(array):
    with pytest.raises(ea.InputError, match=r"cannot be shared: expected a C-cont"):
        ea.from_numpy(array)


# --- help -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("argmax", "max", "abs", "clip", "pow", "tolist", "cpu", "numel"),
        *("__getitem__", "var", "topk", "split", "logsumexp", "isnan"),
    ],
)
def test_help_reads_well(name):
    text = pydoc.plain(pydoc.render_doc(getattr(ea.Tensor, name)))
    assert "Example:" in text
    assert "SupportsInt" not in text
