"""The error bounds that simd/math-inl.h states, in units of the last place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from evolving_attention import _core

EVERY = np.arange(-(2**23), 2**23, 23, dtype=np.float32) / 2**16  # -128 to 128
POSITIVE = np.exp(np.linspace(-80, 80, 700_001)).astype(np.float32)
NEAR = (np.linspace(0.5, 2, 300_001)).astype(np.float32)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Returns 1 / (1 + e^-x) without overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


# op: (function in float64, bound in ulp, float32 values to try); ELU is expm1 there
STATED: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float, np.ndarray]] = {
    "exp": (np.exp, 1.0, EVERY[(EVERY > -87) & (EVERY < 88)]),
    "elu": (np.expm1, 1.0, np.concatenate([EVERY[EVERY < 0], -POSITIVE])),
    "tanh": (np.tanh, 6.0, EVERY),
    "sigmoid": (sigmoid, 3.0, EVERY[EVERY > -87]),
    "log": (np.log, 1.0, np.concatenate([POSITIVE, NEAR])),
}


@pytest.mark.parametrize("name", STATED)
def test_errors_stay_within_what_is_stated(name: str) -> None:
    exact, bound, x = STATED[name]
    got = getattr(_core.ops, name)(_core.Tensor(x)).numpy().astype(np.float64)
    want = exact(x.astype(np.float64))
    unit = np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)
    worst = float(np.max(np.abs(got - want) / unit))
    assert worst <= bound, worst
