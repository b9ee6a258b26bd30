"""A number beside the tensors moves the streams of random ops, and nothing else."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from evolving_attention import _core, errors


@pytest.mark.parametrize("shift", [0, 5, -3, 2**40])
@pytest.mark.parametrize("op", ["dropout", "dropout_layer_norm", "fused_attention"])
def test_a_shift_moves_the_streams_of_random_ops(op: str, shift: int):
    rng = np.random.default_rng(1)
    draws = [rng.standard_normal(s) for s in ((37, 16), (37, 16), (37, 16), (16,))]
    packing = _core.Packing(2, [0, 20, 37])

    def call(x, y, z, w):
        if op == "dropout":
            return _core.ops.dropout(x, 0.3, True)
        if op == "dropout_layer_norm":
            return _core.ops.dropout_layer_norm(x, y, w, w, 1e-5, 0.3, True)
        return _core.ops.fused_attention(
            x, y, z, None, None, None, (0.0, 0.0, 0.0, 1.0, 0.0), packing, 1.0, 1.0, 0.3
        )[0]

    def run(offset: int, scope: contextlib.AbstractContextManager) -> list[bytes]:
        _core.set_rng_state((7, offset % 2**64))
        inputs = [_core.Tensor(a, dtype="float32", requires_grad=True) for a in draws]
        with scope:
            y = call(*inputs)
        y.sum().backward()  # keeps the shift where no scope lives
        assert _core.get_rng_state() == (7, (offset + 1) % 2**64)
        results = (y, *(x.grad for x in inputs if x.grad is not None))
        return [np.asarray(a).tobytes() for a in results]

    moved = run(11, _core.RandomShift(_core.Tensor(np.array([shift]))))
    assert moved == run(11 + shift, contextlib.nullcontext())
    assert (moved == run(11, contextlib.nullcontext())) == (shift == 0)


def test_shifts_nest_and_are_read_when_a_kernel_runs():
    x, inner, outer = (
        _core.Tensor(np.ones(1000)),
        *(_core.Tensor(np.array([n])) for n in (3, 9)),
    )

    def dropped(offset: int) -> bytes:
        _core.set_rng_state((7, offset))
        return np.asarray(_core.ops.dropout(x, 0.5, True)).tobytes()

    want = [dropped(n) for n in range(30)]
    with _core.RandomShift(outer):
        with _core.RandomShift(inner):
            assert dropped(1) == want[4]
        assert dropped(1) == want[10]
        np.asarray(outer)[0] = 20
        assert dropped(1) == want[21]
    assert dropped(1) == want[1]


def test_a_shift_is_one_whole_number_and_a_block_its_own():
    with pytest.raises(errors.DTypeError, match="int64"):
        _core.RandomShift(_core.Tensor([1.0]))
    with pytest.raises(errors.ShapeError, match="one number"):
        _core.RandomShift(_core.Tensor(np.array([1, 2])))
    block = _core.RandomShift(_core.Tensor(np.array([1])))
    with block, pytest.raises(errors.ConfigError, match="entered already"):
        block.__enter__()
