"""Every op's value equals NumPy's, and the rules at the edges hold."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support.cases import Case, as_float64, forced, round_to
from support.map_cases import CLOSED_FORMS, EVOLVING, Lengths, as_mask
from support.op_cases import ACTIVATIONS
from support.table import CASES, by_op, named

from evolving_attention import _core, errors


def kernel_names(kernel: str) -> list[str]:
    return [name for one, name, _ in _core.kernel_entries() if one == kernel]


WITH_ORACLE = by_op(case for case in CASES if case.oracle is not None)

# float32: inputs, products and sums are rounded, each with an error of 2^-24 that grows
# like a random walk over the longest sum, relative to the largest value.
FLOAT32_STEP = 4 * 2.0**-24


@pytest.mark.parametrize("op", WITH_ORACLE)
def test_value_equals_numpy(op: str):
    for case in WITH_ORACLE[op]:
        with named(case):
            check_value(case)


def check_value(case: Case) -> None:
    arrays = case.draw()
    expected = case.oracle(*arrays)
    with forced(("*", "ref")):
        got = case.call(*(_core.Tensor(a, dtype="float64") for a in arrays))
    assert got.shape == np.shape(expected)
    np.testing.assert_allclose(as_float64(got), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("op", WITH_ORACLE)
def test_value_in_float32_equals_numpy(op: str):
    for case in WITH_ORACLE[op]:
        with named(case):
            check_value_in_float32(case)


def check_value_in_float32(case: Case) -> None:
    arrays = [round_to(a, "float32") for a in case.draw()]
    expected = case.oracle(*(a.astype(np.float64) for a in arrays))
    got = as_float64(case.call(*(_core.Tensor(a) for a in arrays)))
    scale = np.max(np.abs(expected), initial=1.0)
    bound = FLOAT32_STEP * scale * np.sqrt(case.sum_length) + 2.0**-21 * scale
    if got.dtype == np.float64 and "bfloat16" in case.name:
        bound += 2.0**-8 * scale
    np.testing.assert_allclose(got, expected, rtol=0, atol=bound)


def tensor(values, dtype: str = "float32"):
    return _core.Tensor(round_to(np.asarray(values), dtype), dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_dropout_keeps_the_share_and_the_mean(dtype: str):
    _core.manual_seed(3)
    y = as_float64(_core.ops.dropout(tensor(np.ones((400, 500)), dtype), 0.3, True))
    kept = y != 0
    assert abs(kept.mean() - 0.7) < 0.005  # 5 standard deviations
    np.testing.assert_allclose(y[kept], 1 / 0.7, rtol=2.0**-8)


def test_dropout_draws_anew_and_repeats_with_the_seed():
    x = tensor(np.ones(1000))
    _core.manual_seed(3)
    first, second = (as_float64(_core.ops.dropout(x, 0.5, True)) for _ in range(2))
    _core.manual_seed(3)
    again = as_float64(_core.ops.dropout(x, 0.5, True))
    assert (first != second).any()
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(as_float64(_core.ops.dropout(x, 0.5, False)), 1.0)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_masked_keys_get_exactly_zero(dtype: str):
    packing = _core.Packing(2, [0, 3, 5], [0, 3, 5])
    x = np.full(2 * (9 + 4), 5.0)
    x[0] = np.nan  # head 0, query 0, key 0 of the first sequence: masked
    mask = np.array([0, 1, 1, 0, 0], np.uint8)
    y = as_float64(_core.ops.map_softmax(tensor(x, dtype), packing, 1.0, as_mask(mask)))
    first, second = y[:18].reshape(2, 3, 3), y[18:]
    np.testing.assert_array_equal(first[..., 0], 0.0)
    np.testing.assert_array_equal(first[..., 1:], 0.5)
    np.testing.assert_array_equal(second, 0.0)  # no key is allowed


@pytest.mark.parametrize("implementation", kernel_names("softmax_backward"))
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_masked_keys_are_not_read(implementation: str, causal: bool):
    packing = _core.Packing(1, [0, 3], [0, 3], causal=causal)
    mask = np.array([1, 0, 1], np.uint8)
    exists = np.tile(mask, 3).reshape(3, 3) != 0
    if causal:
        exists &= np.tri(3, dtype=bool)
    gradients = []
    for elsewhere in (0.0, np.nan, np.inf):
        x = tensor(np.arange(9.0))
        x.requires_grad = True
        dy = np.where(exists.ravel(), np.arange(9.0), elsewhere)
        with forced(("softmax_backward", implementation)):
            _core.ops.map_softmax(x, packing, 1.0, as_mask(mask)).backward(tensor(dy))
        gradients.append(as_float64(x.grad))
    assert np.abs(gradients[0]).max() > 0.1
    np.testing.assert_array_equal(gradients[1], gradients[0])
    np.testing.assert_array_equal(gradients[2], gradients[0])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_softmax_shows_what_is_not_finite(bad: float):
    y = as_float64(_core.ops.softmax(tensor([[0.0, bad, 1.0], [0.0, 0.0, 0.0]])))
    assert np.isnan(y[0]).all()
    np.testing.assert_allclose(y[1], 1 / 3, rtol=1e-6)


@pytest.mark.parametrize("op", ["relu", "gelu", "gelu_tanh", "tanh", "sigmoid", "exp"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_activations_keep_nan_and_survive_large_values(op: str, dtype: str):
    x = np.array([np.nan, 0.0, 80.0, -80.0] * 5)
    y = as_float64(getattr(_core.ops, op)(tensor(x, dtype)))
    assert np.isnan(y[x != x]).all()
    assert np.isfinite(y[x == x]).all()


@pytest.mark.parametrize("op", ACTIVATIONS)
@pytest.mark.parametrize("implementation", kernel_names("activation_backward"))
def test_slopes_of_extreme_values(op: str, implementation: str):
    x = [np.nan, 0.0, 1e-9, 1e-6, 1e-3, 0.5, 20.0, 90.0, 1e19, 1e20, 3e38, np.inf]
    x = np.array([*x, *(-value for value in x[1:])])

    def slopes(name: str) -> np.ndarray:
        given = tensor(x)
        given.requires_grad = True
        with forced(("activation_backward", name)):
            getattr(_core.ops, op)(given).sum().backward()
        return as_float64(given.grad)

    # 1.2e-38 is the smallest normal number of float32.
    np.testing.assert_allclose(slopes(implementation), slopes("ref"), 1e-5, 1.2e-38)


@pytest.mark.parametrize("offset", [0.0, -1e5, 1e8, 3e38])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_of_large_logits_equals_that_of_their_differences(
    offset, smoothing
):
    row = (np.array([[0.0, 1.0, -1.0, 0.5]]) + offset).astype(np.float32)
    logits = _core.Tensor(row, requires_grad=True)
    loss = _core.ops.cross_entropy(logits, np.array([1]), smoothing)
    loss.backward()
    below = row.astype(np.float64) - float(row.max())
    log = below - np.log(np.exp(below).sum())
    aimed = np.full(4, smoothing / 4) + np.eye(4)[1] * (1 - smoothing)
    np.testing.assert_allclose(loss.item(), -(aimed * log).sum(), rtol=1e-6)
    np.testing.assert_allclose(
        logits.grad.numpy()[0], np.exp(log)[0] - aimed, atol=1e-6
    )


def test_cross_entropy_keeps_the_small_loss_of_a_confident_row():
    logits = _core.Tensor(np.array([[12.0, 0.0]], np.float32), requires_grad=True)
    loss = _core.ops.cross_entropy(logits, np.array([0]))
    loss.backward()
    exact = np.log1p(np.exp(-12.0))
    np.testing.assert_allclose(loss.item(), exact, atol=6e-8)  # of 1 + exp(-12)
    np.testing.assert_allclose(logits.grad.numpy()[0], [-exact, exact], atol=6e-8)


def test_cross_entropy_takes_classes_that_cannot_be():
    loss = _core.ops.cross_entropy(
        _core.Tensor(np.array([[0.0, 0.0, -np.inf]], np.float32)), np.array([0])
    )
    np.testing.assert_allclose(loss.item(), np.log(2), rtol=1e-6)


def test_cross_entropy_of_ignored_rows_only_is_nan_without_gradient():
    x = _core.Tensor(np.ones((3, 4), np.float32), requires_grad=True)
    loss = _core.ops.cross_entropy(x, np.full(3, -100))
    assert np.isnan(loss.item())
    loss.backward()
    np.testing.assert_array_equal(as_float64(x.grad), 0.0)


def test_one_tensor_is_joined_along_an_axis_that_it_has():
    with pytest.raises(errors.ShapeError, match=r"\[concat\]"):
        _core.ops.concat([[1.0]], 1)


@pytest.mark.parametrize("op", ["embedding", "gather_rows"])
def test_a_mask_is_no_list_of_rows(op):
    for mask in ([True, False], np.array([True, False])):
        with pytest.raises(errors.DTypeError, match=r"must be integers, got bool; x\["):
            getattr(_core.ops, op)([[1.0], [2.0]], mask)


@pytest.mark.parametrize("op", ["embedding", "gather_rows"])
def test_rows_are_read_once(op):
    read = []

    class Rows:
        def __array__(self, dtype=None, copy=None):
            read.append(1)
            return np.array([1, 0])

    y = getattr(_core.ops, op)([[1.0], [2.0]], Rows())
    assert as_float64(y).tolist() == [[2.0], [1.0]]
    assert len(read) == 1


def test_mean_of_nothing_is_refused():
    with pytest.raises(errors.ShapeError, match="mean of no elements"):
        _core.ops.mean(tensor(np.zeros((0, 4))))


def test_rows_of_an_empty_table_are_zeros():
    y = _core.ops.gather_rows(tensor(np.zeros((0, 4))), np.array([-1, -1]))
    np.testing.assert_array_equal(as_float64(y), np.zeros((2, 4)))


@pytest.mark.parametrize("op", ["evolve", "evolve_composite"])
def test_a_convolution_needs_its_parameters(op: str):
    maps = tensor(np.ones(4))
    with pytest.raises(errors.InputError, match="weight and bias are needed"):
        getattr(_core.ops, op)(
            maps, maps, None, None, EVOLVING, _core.Packing(1, [0, 2])
        )


@pytest.mark.parametrize("coefficients", list(CLOSED_FORMS.values()), ids=CLOSED_FORMS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_evolve_equals_its_composite(coefficients: tuple[float, ...], dtype: str):
    n = Lengths(3, (17, 1, 0, 9))
    rng = np.random.default_rng(0)
    shapes = [(n.elements,), (n.elements,), (3, 3, 3, 3), (3,)]
    arrays = [tensor(0.3 * rng.standard_normal(s), dtype) for s in shapes]
    fused = as_float64(_core.ops.evolve(*arrays, coefficients, n.packing))
    spelled = as_float64(_core.ops.evolve_composite(*arrays, coefficients, n.packing))
    # bfloat16: the composite rounds the mixed map, the convolution and the sum.
    relative = {"float32": 2.0**-20, "bfloat16": 2.0**-5, "float64": 2.0**-49}[dtype]
    bound = relative * np.abs(spelled).max()
    np.testing.assert_allclose(fused, spelled, rtol=0, atol=bound)


MIXED_TYPES = {
    "add": lambda a, b: _core.ops.add(a, b),
    "linear": lambda a, b: _core.ops.linear(a, b),
    "matmul": lambda a, b: _core.ops.matmul(a, b),
    "layer_norm": lambda a, b: _core.ops.layer_norm(
        a, _core.ops.reshape(b, (16,)), _core.ops.reshape(b, (16,)), 1e-5, None
    ),
    "rms_norm": lambda a, b: _core.ops.rms_norm(a, _core.ops.reshape(b, (16,))),
    "attention_scores": lambda a, b: _core.ops.attention_scores(
        a, b, _core.Packing(1, [0, 4], [0, 4]), 1.0
    ),
    "attention_context": lambda a, b: _core.ops.attention_context(
        _core.ops.reshape(a, (16,)), b, _core.Packing(1, [0, 4], [0, 4])
    ),
    "map_conv": lambda a, b: _core.ops.map_conv(
        _core.ops.reshape(a, (16,)),
        _core.ops.reshape(b, (4, 4, 1, 1)),
        _core.ops.reshape(_core.ops.slice(b, 0, 0, 1), (4,)),
        _core.Packing(4, [0, 2], [0, 2]),
    ),
    "evolve": lambda a, b: _core.ops.evolve(
        _core.ops.reshape(b, (16,)),
        _core.ops.reshape(a, (16,)),
        _core.ops.reshape(a, (4, 4, 1, 1)),
        _core.ops.reshape(_core.ops.slice(a, 0, 0, 1), (4,)),
        EVOLVING,
        _core.Packing(4, [0, 2], [0, 2]),
    ),
}


@pytest.mark.parametrize("op", sorted(MIXED_TYPES))
def test_mixed_types_are_refused(op: str):
    a, b = tensor(np.ones((4, 4))), tensor(np.ones((4, 4)), "float64")
    if op.endswith("_norm"):
        a = tensor(np.ones((1, 16)))
    for first, second in ((a, b), (tensor(as_float64(a), "float64"), tensor(b))):
        with pytest.raises(errors.DTypeError, match=rf"\[{op}\]"):
            MIXED_TYPES[op](first, second)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("shape", [(5, 7), (3, 2, 33), (40, 64), (517, 259)])
def test_fused_norm_has_the_bits_of_dropout_then_layer_norm(shape, dtype: str):
    rng = np.random.default_rng(1)
    draws = [rng.standard_normal(s) for s in (shape, shape, shape[-1:], shape[-1:])]
    dy = tensor(rng.standard_normal(shape), dtype)

    def run(call) -> list[np.ndarray]:
        _core.manual_seed(5)
        inputs = [
            _core.Tensor(round_to(a, dtype), dtype=dtype, requires_grad=True)
            for a in draws
        ]
        y = call(*inputs)
        y.backward(dy)
        state = np.asarray(_core.get_rng_state())
        return [np.array(np.asarray(a)) for a in (y, *(x.grad for x in inputs))] + [
            state
        ]

    def fused(x, r, w, b):
        return _core.ops.dropout_layer_norm(x, r, w, b, 1e-5, 0.3, True)

    def spelled(x, r, w, b):
        return _core.ops.layer_norm(_core.ops.dropout(x, 0.3, True), w, b, 1e-5, r)

    def dropout_calls() -> int:
        return sum(n for name, _, n in _core.kernel_entries() if name == "dropout")

    _core.set_fast_path("fused_norm", True)
    want, before = run(spelled), dropout_calls()
    for got in (run(fused), run(fused)):
        assert [a.tobytes() for a in got] == [a.tobytes() for a in want]
    assert dropout_calls() == before  # the fused op ran no dropout of its own
    _core.set_fast_path("fused_norm", False)
    got = run(fused)
    assert dropout_calls() == before + 2  # forward and backward
    assert [a.tobytes() for a in got] == [a.tobytes() for a in want]


def test_dropout_before_a_norm_checks_its_probability():
    x, w = tensor(np.ones((2, 3))), tensor(np.ones(3))
    with pytest.raises(errors.ConfigError, match="outside"):
        _core.ops.dropout_layer_norm(x, x, w, w, 1e-5, 1.5, True)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("kind", ["gelu", "gelu_new", "relu", "tanh"])
@pytest.mark.parametrize("sizes", [(5, 7, 3), (2, 3, 9), (67, 33, 517)])
def test_fused_activation_has_the_bits_of_linear_then_activation(
    sizes, kind: str, dtype: str
):
    m, k, n = sizes
    rng = np.random.default_rng(2)
    draws = [rng.standard_normal(s) for s in ((m, k), (n, k), (n,))]
    dy = tensor(rng.standard_normal((m, n)), dtype)

    def run(on: bool) -> list[np.ndarray]:
        _core.set_fast_path("fused_activation", on)
        inputs = [
            _core.Tensor(round_to(a, dtype), dtype=dtype, requires_grad=True)
            for a in draws
        ]
        y = _core.ops.linear_activation(*inputs, kind)
        y.backward(dy)
        plain = _core.ops.linear_activation(*(x.detach() for x in inputs), kind)
        tensors = (y, plain, *(x.grad for x in inputs))
        return [np.array(np.asarray(a)) for a in tensors]

    fused, spelled = run(True), run(False)
    assert [a.tobytes() for a in fused] == [a.tobytes() for a in spelled]
    assert fused[0].tobytes() == fused[1].tobytes()  # in place without a graph


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("kind", ["gelu", "relu"])
def test_feed_forward_has_the_bits_of_its_three_ops(kind: str, dtype: str):
    rng = np.random.default_rng(3)
    shapes = ((67, 33), (129, 33), (129,), (31, 129), (31,))
    draws = [round_to(rng.standard_normal(s), dtype) for s in shapes]
    dy = tensor(rng.standard_normal((67, 31)), dtype)

    def run(on: bool) -> list[np.ndarray]:
        _core.set_fast_path("fused_activation", on)
        inputs = [_core.Tensor(a, dtype=dtype, requires_grad=True) for a in draws]
        x, w1, b1, w2, b2 = inputs
        y = _core.ops.feed_forward(x, w1, b1, kind, w2, b2)
        y.backward(dy)
        x, w1, b1, w2, b2 = (t.detach() for t in inputs)
        plain = _core.ops.feed_forward(x, w1, b1, kind, w2, b2)
        return [np.array(np.asarray(a)) for a in (y, plain, *(t.grad for t in inputs))]

    fused, spelled = run(True), run(False)
    assert [a.tobytes() for a in fused] == [a.tobytes() for a in spelled]
    assert fused[0].tobytes() == fused[1].tobytes()  # in place without a graph


def test_feed_forward_keeps_no_activation():
    """The graph holds x and the weights, which exist anyway, and f's argument."""
    x, w1, w2 = (tensor(np.ones(s)) for s in ((64, 16), (512, 16), (16, 512)))
    held = []
    for on in (True, False):
        _core.set_fast_path("fused_activation", on)
        v1, v2 = (_core.Tensor(w, requires_grad=True) for w in (w1, w2))
        _core.release_cached_memory()  # a block kept for reuse may be larger
        before = _core.current_memory()
        y = _core.ops.feed_forward(x, v1, None, "gelu", v2, None)
        held.append(_core.current_memory() - before)
        del y
    wide, narrow = 64 * 512 * 4, 64 * 16 * 4
    assert held == [wide + narrow, 2 * wide + narrow]


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        (((2, 3), (4, 5), (4,), (3, 4), (3,)), "weight has shape (4, 5), input (2, 3)"),
        (((2, 3), (4, 3), (5,), (3, 4), (3,)), "bias has shape (5,), expected (4,)"),
        (((2, 3), (4, 3), (4,), (3, 5), (3,)), "weight has shape (3, 5), input (2, 4)"),
    ],
)
def test_feed_forward_checks_its_shapes(shapes, text: str):
    x, w1, b1, w2, b2 = (tensor(np.ones(s)) for s in shapes)
    with pytest.raises(errors.ShapeError, match=re.escape(f"[feed_forward] {text}")):
        _core.ops.feed_forward(x, w1, b1, "gelu", w2, b2)
