"""Gradients of functions of tensors against central differences."""

from __future__ import annotations

import numpy as np
import pytest

import evolving_attention as ea


def check_gradient(function, *arrays, step=1e-6):
    """Checks the gradient of sum(c * function(...)) by float64 central differences."""
    rng = np.random.default_rng(11)
    leaves = [ea.Tensor(a, dtype="float64", requires_grad=True) for a in arrays]
    out = function(*leaves)
    cotangent = rng.normal(size=out.shape)
    out.backward(ea.Tensor(cotangent))
    for which, leaf in enumerate(leaves):
        gradient = leaf.grad.numpy()
        for place in np.ndindex(leaf.shape):
            sides = []
            for sign in (1, -1):
                moved = [np.array(a, np.float64) for a in arrays]
                moved[which][place] += sign * step
                sides.append(function(*map(ea.Tensor, moved)).numpy())
            numeric = ((sides[0] - sides[1]) * cotangent).sum() / (2 * step)
            assert abs(gradient[place] - numeric) < 1e-7 * max(1, abs(numeric))


def check_slopes(tensors, loss, **bounds):
    """Compares a gradient of each tensor, at a random place, with differences."""
    rng, step = np.random.default_rng(3), 1e-6
    for number, tensor in enumerate(tensors):
        values = np.array(tensor.detach())
        place = tuple(rng.integers(0, n) for n in values.shape)
        slopes = []
        for change in (step, -step):
            moved = values.copy()
            moved[place] += change
            tensor.copy_(moved)
            slopes.append(loss())
        tensor.copy_(values)
        slope = (slopes[0] - slopes[1]) / (2 * step)
        found = 0.0 if tensor.grad is None else np.asarray(tensor.grad)[place]
        assert found == pytest.approx(slope, **bounds), number
