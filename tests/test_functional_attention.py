"""ea.functional.evolving_attention on dense arrays, against the NumPy oracle."""

from __future__ import annotations

import numpy as np
import pytest
from reference import evolving

import evolving_attention as ea
from evolving_attention import functional as F

B, H, N, D = 2, 3, 5, 4


def draw(seed=0, layers=3, keys=N):
    rng = np.random.default_rng(seed)
    arrays = {
        "q": rng.normal(size=(layers, B, H, N, D)),
        "k": rng.normal(size=(layers, B, H, keys, D)),
        "v": rng.normal(size=(layers, B, H, keys, D)),
        "weight": rng.normal(size=(layers, H, H, 3, 3)) * 0.3,
        "bias": rng.normal(size=(layers, H)) * 0.2,
    }
    return arrays


def chain(arrays, alpha, beta, mask=None, **options):
    """Runs all layers through the function; returns contexts and maps."""
    previous, contexts, maps = None, [], []
    for i in range(len(arrays["q"])):
        context, previous = F.evolving_attention(
            *(arrays[name][i] for name in "qkv"),
            prev=previous,
            weight=arrays["weight"][i] if beta else None,
            bias=arrays["bias"][i] if beta else None,
            alpha=alpha,
            beta=beta,
            mask=mask,
            **options,
        )
        contexts.append(np.asarray(context))
        maps.append(np.asarray(previous))
    return np.stack(contexts), np.stack(maps)


MASKS = {
    "no mask": None,
    "padding": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]),
    "holes": np.array([[0, 1, 0, 1, 1], [1, 0, 0, 0, 1]]) > 0,
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.0, 0.0), (0.3, 0.0), (0.3, 0.4), (0.0, 1.0), (1.0, 1.0)]
)
def test_a_chain_follows_the_equations(alpha, beta, mask):
    arrays, keys = draw(), MASKS[mask]
    contexts, maps = chain(arrays, alpha, beta, keys)
    scores = arrays["q"] @ arrays["k"].swapaxes(-1, -2) / np.sqrt(D)
    for b in range(B):
        allowed = None if keys is None else np.broadcast_to(keys[b] > 0, (N, N))
        expected, probabilities = evolving.chain(
            scores[:, b], arrays["weight"], arrays["bias"], alpha, beta, allowed
        )
        assert np.allclose(maps[:, b], expected, rtol=0, atol=1e-12)
        context = probabilities @ arrays["v"][:, b]
        assert np.allclose(contexts[:, b], context, rtol=0, atol=1e-12)


def test_values_of_masked_keys_do_not_matter():
    first, second = draw(), draw()
    mask = MASKS["padding"]
    hidden = mask[None, :, None, :, None] == 0
    for name in ("k", "v"):
        second[name] = np.where(hidden, 1e6, second[name])
    for ours, theirs in zip(
        chain(first, 0.3, 1.0, mask), chain(second, 0.3, 1.0, mask), strict=True
    ):
        assert np.array_equal(ours, theirs)


def test_bias_and_scale_have_defaults():
    arrays = draw(layers=2)
    arrays["bias"][:] = 0
    expected = chain(arrays, 0.3, 0.4, scale=D**-0.5)
    for i, (context, maps) in enumerate(zip(*chain(arrays, 0.3, 0.4), strict=True)):
        assert np.array_equal(context, expected[0][i])
        assert np.array_equal(maps, expected[1][i])
    q, k, v = (arrays[name][0] for name in "qkv")
    _, first = F.evolving_attention(q, k, v)
    for scale in (2.0, 0.0):
        _, scaled = F.evolving_attention(q, k, v, scale=scale)
        expected = np.asarray(first) * scale * np.sqrt(D)
        assert np.allclose(scaled, expected, atol=1e-12)
    last = [arrays[name][1] for name in "qkv"]
    _, plain = F.evolving_attention(
        *last, prev=first, weight=arrays["weight"][1], alpha=0.3, beta=0.4
    )
    assert np.array_equal(np.asarray(plain), chain(arrays, 0.3, 0.4)[1][1])


def test_queries_and_keys_may_differ_in_number():
    arrays = draw(layers=1, keys=7)
    q, k, v = (arrays[name][0] for name in "qkv")
    context, maps = F.evolving_attention(q, k, v)
    assert (context.shape, maps.shape) == ((B, H, N, D), (B, H, N, 7))
    p = np.exp(np.asarray(maps))
    expected = p / p.sum(-1, keepdims=True) @ v
    assert np.allclose(context, expected, atol=1e-12)


@pytest.mark.parametrize("mask", MASKS)
def test_gradients_reach_every_argument(mask):
    arrays = draw(layers=1)
    rng = np.random.default_rng(1)
    values = {name: array[0] for name, array in arrays.items()}
    values["prev"] = rng.normal(size=(B, H, N, N))
    if MASKS[mask] is not None:
        values["prev"] *= MASKS[mask][:, None, None, :]
    weights = [rng.normal(size=(B, H, N, D)), rng.normal(size=(B, H, N, N))]

    def objective(given):
        context, maps = F.evolving_attention(
            **given, alpha=0.3, beta=0.6, mask=MASKS[mask]
        )
        return (context * weights[0]).sum() + (maps * weights[1]).sum()

    tensors = {n: ea.Tensor(a.copy(), requires_grad=True) for n, a in values.items()}
    objective(tensors).backward()
    step = 1e-6
    for name, tensor in tensors.items():
        direction = rng.normal(size=tensor.shape)
        if name == "prev" and MASKS[mask] is not None:
            direction *= MASKS[mask][:, None, None, :]
        ends = [
            objective({**values, name: values[name] + sign * step * direction}).item()
            for sign in (1, -1)
        ]
        slope = (ends[0] - ends[1]) / (2 * step)
        found = np.vdot(np.asarray(tensor.grad), direction)
        assert slope == pytest.approx(found, abs=2e-7), name


Q = np.zeros((B, H, N, D))
WRONG = {
    "three axes": ({"q": Q[0]}, ea.ShapeError, "q"),
    "other heads": ({"k": Q[:, :2], "v": Q[:, :2]}, ea.ShapeError, r"\(2, 2, 5, 4\)"),
    "keys without values": ({"v": Q[:, :, :3]}, ea.ShapeError, r"\(2, 3, 3, 4\)"),
    "mask": ({"mask": np.ones((B, 3))}, ea.ShapeError, r"mask has shape \(2, 3\)"),
    "no weight": (
        {"prev": np.zeros((B, H, N, N)), "beta": 0.5},
        (ea.ShapeError, ea.InputError, ea.ConfigError),
        "weight",
    ),
    "previous maps": (
        {"prev": np.zeros((B, H, N, 3)), "alpha": 0.5},
        ea.ShapeError,
        "previous|prev",
    ),
    "previous maps of as many cells": (
        {"prev": np.zeros((H, B, N, N)), "alpha": 0.5},
        ea.ShapeError,
        r"prev has shape \(3, 2, ",
    ),
    "alpha in words": ({"alpha": "a"}, ea.ConfigError, "alpha='a'"),
    "kernel": (
        {
            "prev": np.zeros((B, H, N, N)),
            "weight": np.zeros((H, 2, 3, 3)),
            "beta": 0.5,
        },
        ea.ShapeError,
        r"weight.*\(3, 2, 3, 3\)",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments(case):
    given, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        F.evolving_attention(**{"q": Q, "k": Q, "v": Q, **given})
