"""Every differentiable op: its gradients equal central differences in float64.

The list of ops comes from the extension. An op without cases, or with fewer than eight
shapes, fails: a new op needs an entry in tests/support.
"""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import pytest
from support.cases import Case, as_float64, forced, round_to
from support.table import CASES, by_op, named

from evolving_attention import _core

GRADIENT_CASES = [case for case in CASES if not case.wide]
OF_OP = by_op(GRADIENT_CASES)

# Central differences err by step^2 f'''/6 and by 2^-53 |f| / step: both are below 1e-8
# here for values of order 1, and below 1e-6 for sums of up to a thousand such values.
TOLERANCE = 1e-6
# Elements checked of a larger input. All run the same code: sanitizers need few.
SAMPLED = int(os.environ.get("EA_TEST_SAMPLED", "48"))


def test_every_op_has_cases():
    counts = Counter(case.op for case in GRADIENT_CASES)
    names = set(_core.op_names())
    missing = sorted(names - set(counts))
    assert not missing, f"ops without a gradient check: {missing}"
    unknown = sorted(set(counts) - names)
    assert not unknown, f"cases of ops that the extension does not list: {unknown}"


# The mean of no values is refused, or is not a number.
NOT_EMPTY = {
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "mean",
    "mse_loss",
}


def test_every_op_has_shapes_of_all_kinds():
    shapes: dict[str, set] = {}
    for case in GRADIENT_CASES:
        shapes.setdefault(case.op, set()).add(case.shapes)
    few = {op: len(found) for op, found in shapes.items() if len(found) < 8}
    assert not few, f"ops with fewer than eight shapes: {few}"
    for op, found in shapes.items():
        sizes = {n for inputs in found for shape in inputs for n in shape}
        assert any(n % 2 and n > 1 for n in sizes), f"{op}: no odd size"
        assert 1 in sizes, f"{op}: no size 1"
        assert (0 in sizes) == (op not in NOT_EMPTY), f"{op}: no empty input"


def evaluate(case: Case, arrays: list[np.ndarray]) -> np.ndarray:
    _core.manual_seed(7)
    return as_float64(case.call(*(_core.Tensor(a, dtype="float64") for a in arrays)))


@pytest.mark.parametrize("op", OF_OP)
def test_gradient_equals_central_differences(op: str):
    for case in OF_OP[op]:
        with named(case):
            check_gradient(case)


def check_gradient(case: Case) -> None:
    arrays = case.draw()
    with forced(("*", "ref")):
        _core.manual_seed(7)
        inputs = [_core.Tensor(a, dtype="float64", requires_grad=True) for a in arrays]
        out = case.call(*inputs)
        dy = round_to(case.cotangent(out.shape), out.dtype)
        out.backward(_core.Tensor(dy, dtype=out.dtype))
        dy = dy.astype(np.float64)
        rng = np.random.default_rng(0)
        for which, (array, tensor) in enumerate(zip(arrays, inputs, strict=True)):
            assert tensor.grad is not None, f"input {which} has no gradient"
            assert tensor.grad.shape == array.shape
            assert tensor.grad.dtype == "float64"
            gradient = as_float64(tensor.grad).ravel()
            places = np.arange(array.size)
            if array.size > SAMPLED:
                places = rng.choice(places, SAMPLED, replace=False)
            for place in places:
                sides = []
                for sign in (1, -1):
                    moved = [a.copy() for a in arrays]
                    moved[which].reshape(-1)[place] += sign * case.step
                    sides.append(evaluate(case, moved))
                numeric = float(((sides[0] - sides[1]) * dy).sum()) / (2 * case.step)
                error = abs(gradient[place] - numeric)
                assert error <= TOLERANCE * max(1.0, abs(numeric)), (
                    f"input {which}, element {place}: {gradient[place]} from backward, "
                    f"{numeric} from differences"
                )


def test_only_wanted_gradients_are_made():
    x = _core.Tensor(np.ones((2, 3)), dtype="float64")
    w = _core.Tensor(np.ones((4, 3)), dtype="float64", requires_grad=True)
    _core.ops.sum(_core.ops.linear(x, w)).backward()
    assert x.grad is None
    np.testing.assert_array_equal(as_float64(w.grad), np.full((4, 3), 2.0))


def test_a_tensor_used_twice_gets_both_gradients():
    x = _core.Tensor(np.array([2.0, -3.0]), dtype="float64", requires_grad=True)
    y = x * x + x
    _core.ops.sum(y).backward()
    np.testing.assert_array_equal(as_float64(x.grad), [5.0, -5.0])
    _core.ops.sum(2.0 * x).backward()
    np.testing.assert_array_equal(as_float64(x.grad), [7.0, -3.0])
