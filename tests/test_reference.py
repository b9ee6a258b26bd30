"""The NumPy reference implementations, against cases checked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from reference import evolving, predictive, realformer

RNG = np.random.default_rng(7)


def draw(depth: int, heads: int, n: int, size: int = 3):
    """Returns random scores and one random convolution per layer."""
    scores = RNG.normal(size=(depth, heads, n, n))
    weights = RNG.normal(size=(depth, heads, heads, size, size)) * 0.3
    return scores, weights, RNG.normal(size=(depth, heads)) * 0.1


def test_conv_of_a_unit_impulse_is_the_flipped_kernel():
    x = np.zeros((1, 3, 3))
    x[0, 1, 1] = 1.0
    weight = np.arange(1.0, 10.0).reshape(1, 1, 3, 3)
    out = evolving.conv_map(x, weight, np.zeros(1))
    assert np.array_equal(out[0], weight[0, 0, ::-1, ::-1])


def test_conv_counts_neighbours_and_heads():
    out = evolving.conv_map(np.ones((2, 2, 3)), np.ones((2, 2, 3, 3)), np.array([0, 5]))
    assert np.array_equal(out[0], [[8, 12, 8], [8, 12, 8]])
    assert np.array_equal(out[1], out[0] + 5)


def test_conv_rows_are_queries_and_columns_are_keys():
    x = np.zeros((1, 4, 4))
    x[0, 1, 2] = 1.0
    weight = np.zeros((1, 1, 3, 3))
    weight[0, 0, 0, 1] = 1.0  # reads the cell one query above
    out = evolving.conv_map(x, weight, np.zeros(1))
    assert out[0, 2, 2] == 1.0
    assert out.sum() == 1.0


@pytest.mark.parametrize("size", [1, 3, 5])
def test_conv_agrees_with_scipy(size):
    signal = pytest.importorskip("scipy.signal")
    x, w = RNG.normal(size=(2, 5, 7)), RNG.normal(size=(2, 2, size, size))
    expected = [
        sum(signal.correlate2d(x[c], w[o, c], mode="same") for c in range(2)) + o
        for o in range(2)
    ]
    assert np.allclose(evolving.conv_map(x, w, np.arange(2.0)), expected, atol=1e-12)


def test_evolving_by_hand():
    one = np.ones((1, 1, 1, 1))
    scores = np.array([2.0, 4.0]).reshape(2, 1, 1, 1)
    weight, bias = [None, 3.0 * one], [None, np.array([-1.0])]
    level, p = evolving.chain(scores, weight, bias, alpha=0.25, beta=0.5)
    # I = .25*2 + .75*4 = 3.5;  relu(3*3.5 - 1) = 9.5;  L = .5*9.5 + .5*3.5 = 6.5
    assert level.ravel().tolist() == [2.0, 6.5]
    assert p.ravel().tolist() == [1.0, 1.0]


def test_evolving_applies_relu_before_the_mix():
    scores = np.array([1.0, 2.0]).reshape(2, 1, 1, 1)
    weight, bias = [None, -np.ones((1, 1, 1, 1))], [None, np.zeros(1)]
    level, _ = evolving.chain(scores, weight, bias, alpha=0.5, beta=0.4)
    assert level[1].item() == pytest.approx(0.6 * 1.5)  # relu(-1.5) = 0


def test_first_layer_has_neither_skip_nor_convolution():
    scores, weights, biases = draw(1, 2, 3)
    level, p = evolving.chain(scores, weights, biases, alpha=0.3, beta=1.0)
    assert np.array_equal(level, scores)
    assert np.allclose(p, np.exp(scores) / np.exp(scores).sum(-1, keepdims=True))


def test_zero_weights_are_the_vanilla_model_bit_for_bit():
    scores, _, _ = draw(3, 2, 4)
    level, _ = evolving.chain(scores, None, None, alpha=0.0, beta=0.0)
    assert np.array_equal(level, scores)


def test_skip_alone_is_a_running_half_sum():
    scores, _, _ = draw(3, 1, 2)
    level, _ = evolving.chain(scores, None, None, alpha=0.5, beta=0.0)
    assert np.allclose(level[2], scores[0] / 4 + scores[1] / 4 + scores[2] / 2)


@pytest.mark.parametrize("kind", ["evolving", "predictive", "realformer"])
def test_padding_never_changes_a_result(kind):
    scores, weights, biases = draw(3, 2, 4)
    padded = RNG.normal(size=(3, 2, 7, 7)) * 50.0
    padded[:, :, :4, :4] = scores
    allowed = np.zeros((7, 7), bool)
    allowed[:4, :4] = True
    run = {
        "evolving": lambda s, a: evolving.chain(s, weights, biases, 0.3, 0.7, a),
        "predictive": lambda s, a: predictive.chain(
            s, [[w, w] for w in weights], [[b, b] for b in biases], 0.4, a
        ),
        "realformer": lambda s, a: realformer.chain(s, True, a),
    }[kind]
    (level, p), (wide, wide_p) = run(scores, None), run(padded, allowed)
    assert np.allclose(wide[:, :, :4, :4], level, atol=1e-12)
    assert np.allclose(wide_p[:, :, :4, :4], p, atol=1e-12)
    assert not wide_p[:, :, :, 4:].any()
    assert not wide_p[:, :, 4:].any()
    assert not wide[:, :, 4:].any()
    assert not wide[:, :, :, 4:].any()


def test_masked_keys_stay_at_zero_even_when_the_convolution_decides_alone():
    scores, weights, biases = draw(4, 2, 5)
    allowed = np.tril(np.ones((5, 5), bool))
    _, p = evolving.chain(scores, weights, biases, 0.5, 1.0, allowed)
    assert not p[:, :, ~allowed].any()
    assert np.allclose(p.sum(-1), 1.0)


def test_realformer_by_hand():
    scores = np.array([[3.0, 1.0], [2.0, 0.0], [1.0, 5.0]]).reshape(3, 1, 1, 2)
    sums, p = realformer.chain(scores)
    assert sums[:, 0, 0].tolist() == [[3.0, 1.0], [5.0, 1.0], [6.0, 6.0]]
    assert p[2].ravel().tolist() == [0.5, 0.5]
    mean_sums, mean_p = realformer.chain(scores, running_mean=True)
    assert np.array_equal(mean_sums, sums)  # the carry is the undivided sum
    assert mean_p[1, 0, 0, 0] == pytest.approx(1 / (1 + np.exp(-2.0)))


def test_predictive_by_hand():
    scores = np.array([2.0, 4.0]).reshape(2, 1, 1, 1)
    weight = [None, [np.full((1, 1, 1, 1), 3.0)]]
    level, _ = predictive.chain(scores, weight, [None, [np.array([-1.0])]], alpha=0.2)
    assert level[1].item() == pytest.approx(0.2 * 5.0 + 0.8 * 4.0)


def test_predictive_without_convolutions_is_a_mix():
    scores, _, _ = draw(2, 2, 3)
    level, _ = predictive.chain(scores, [[], []], [[], []], alpha=0.3)
    assert np.allclose(level[1], 0.3 * scores[0] + 0.7 * scores[1])


def closed_form(m, s, weight, bias, a, b, p, q, w):
    """L = p M + q S + w relu(Conv(a M + b S)): one form for all kinds."""
    grown = np.maximum(evolving.conv_map(a * m + b * s, weight, bias), 0.0)
    return p * m + q * s + w * grown


def test_every_kind_is_a_row_of_the_closed_form():
    scores, weights, biases = draw(2, 2, 4)
    (m, s), w, c = scores, weights[1], biases[1]
    al, be = 0.3, 0.6
    rows = {
        "evolving": (al, 1 - al, al * (1 - be), (1 - al) * (1 - be), be),
        "no conv": (0.0, 0.0, al, 1 - al, 0.0),
        "no skip": (0.0, 1.0, 0.0, 1 - be, be),
        "residual": (0.0, 0.0, 1.0, 1.0, 0.0),
        "predictive": (1.0, 0.0, 0.0, 1 - al, al),
    }
    expected = {
        "evolving": evolving.chain(scores, weights, biases, al, be)[0][1],
        "no conv": evolving.chain(scores, None, None, al, 0.0)[0][1],
        "no skip": evolving.chain(scores, weights, biases, 0.0, be)[0][1],
        "residual": realformer.chain(scores)[0][1],
        "predictive": predictive.chain(scores, [None, [w]], [None, [c]], al)[0][1],
    }
    for kind, row in rows.items():
        assert np.allclose(closed_form(m, s, w, c, *row), expected[kind]), kind
