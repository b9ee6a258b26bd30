"""Norm outputs recomputed in backward instead of kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers_recompute import calls

import evolving_attention as ea
from evolving_attention import functional as F

ROWS, WIDTH, OUT = 48, 32, 40


def leaf(*shape: int, seed: int, dtype: str) -> ea.Tensor:
    values = np.random.default_rng(seed).normal(size=shape)
    return ea.Tensor(values).to(dtype).requires_grad_()


def layer_norm(x: ea.Tensor, w: ea.Tensor, b: ea.Tensor) -> ea.Tensor:
    return F.layer_norm(x, w, b)


def dropped_norm(x: ea.Tensor, w: ea.Tensor, b: ea.Tensor) -> ea.Tensor:
    ea.manual_seed(3)
    return F.dropout_layer_norm(x, x * 0.5, w, b, p=0.2)


def rms_norm(x: ea.Tensor, w: ea.Tensor, b: ea.Tensor) -> ea.Tensor:
    return F.rms_norm(x, w)


def batch_norm(x: ea.Tensor, w: ea.Tensor, b: ea.Tensor) -> ea.Tensor:
    return F.batch_norm(x, w, b, training=True, rectify=True)


NORMS = [layer_norm, dropped_norm, rms_norm, batch_norm]


def linear(y: ea.Tensor, dtype: str) -> ea.Tensor:
    return F.linear(y, leaf(OUT, WIDTH, seed=4, dtype=dtype))


def feed_forward(y: ea.Tensor, dtype: str) -> ea.Tensor:
    w = leaf(OUT, WIDTH, seed=4, dtype=dtype), leaf(WIDTH, OUT, seed=5, dtype=dtype)
    b = leaf(OUT, seed=6, dtype=dtype), leaf(WIDTH, seed=7, dtype=dtype)
    return F.feed_forward(y, w[0], b[0], "gelu", w[1], b[1])


def reshaped(y: ea.Tensor, dtype: str) -> ea.Tensor:
    return linear(y.reshape(ROWS // 2, 2, WIDTH), dtype)


READERS = [linear, feed_forward, reshaped]


def inputs(dtype: str) -> list[ea.Tensor]:
    shapes = [(ROWS, WIDTH), (WIDTH,), (WIDTH,)]
    return [leaf(*s, seed=i, dtype=dtype) for i, s in enumerate(shapes)]


def run(norm: Any, reader: Any, dtype: str, apart: bool) -> tuple[int, list[Any]]:
    """Returns bytes kept for backward, and the gradients.

    With ``apart``, an operation between the two hides the norm from its reader.
    """
    given = inputs(dtype)
    y = norm(*given)
    out = reader(y * 1.0 if apart else y, dtype)
    seed = leaf(*out.shape, seed=9, dtype=dtype).detach()
    kept = out._kept_bytes()
    out.backward(seed)
    return kept, [x.grad.float().numpy() for x in given if x.grad is not None]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_the_gradients_have_the_bits_of_a_kept_output(
    norm: Any, reader: Any, dtype: str
) -> None:
    direct, found = run(norm, reader, dtype, apart=False)
    apart, expected = run(norm, reader, dtype, apart=True)
    item = {"float32": 4, "bfloat16": 2, "float64": 8}[dtype]
    assert apart - direct >= ROWS * WIDTH * item
    for one, other in zip(found, expected, strict=True):
        assert np.abs(one).max() > 0
        np.testing.assert_array_equal(one, other)


def test_an_output_is_made_again_once_for_all_that_read_it() -> None:
    def norms(readers: int) -> int:
        given = inputs("float32")
        y = layer_norm(*given)
        before = calls("layer_norm_forward")
        F.stack([linear(y, "float32") for _ in range(readers)]).sum().backward()
        return calls("layer_norm_forward") - before

    assert norms(1) == norms(3) == 1


def test_a_norm_whose_graph_was_freed_says_so() -> None:
    given = inputs("float32")
    y = layer_norm(*given)
    one, two = linear(y, "float32").sum(), linear(y, "float32").sum()
    one.backward()
    with pytest.raises(ea.InputError, match="'layer_norm' was already used and freed"):
        two.backward()
