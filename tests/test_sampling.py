"""Sampling: the distribution, and each sentence's own random numbers."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_generation import (
    END,
    log_probabilities,
    padded,
    sources,
    trained,
)
from helpers_transformer import SIZES, tiny
from scipy import stats

import evolving_attention as ea
from evolving_attention import _core

DRAWN = {"do_sample": True, "max_new_tokens": 12, "top_k": None}


def fits(counts, probabilities):
    """Returns whether a chi-square test accepts the counts for this distribution."""
    expected = np.asarray(probabilities) * np.sum(counts)
    if np.asarray(counts)[expected == 0].any():
        return False
    often = expected >= 5
    observed = [*np.asarray(counts)[often], np.asarray(counts)[~often].sum()]
    expected = [*expected[often], expected[~often].sum()]
    if expected[-1] == 0:
        observed, expected = observed[:-1], expected[:-1]
    return stats.chisquare(observed, expected, sum_check=False).pvalue > 1e-3


@pytest.mark.parametrize(
    "options",
    [{}, {"temperature": 1.7}, {"temperature": 0.4, "top_k": 7}, {"top_p": 0.8}],
)
def test_tokens_have_the_probabilities_of_the_model(options):
    model, row = tiny("evolving", dtype="float64").eval(), np.array([4, 5, 3])
    settings = {**DRAWN, "max_new_tokens": 2, **options}
    draws = 6000
    found = model.generate(row[None], **settings, num_return_sequences=draws, seed=1)
    assert found.shape == (draws, 3)

    def p(target):
        log_p = log_probabilities(model, row, [target])[0, -1]
        drawn = {"temperature": 1.0, "top_p": 1.0, **options}
        return _core.sampling_probabilities(
            log_p.tolist(),
            drawn["temperature"],
            drawn.get("top_k", 0) or 0,
            drawn["top_p"],
        )

    words = SIZES["vocab_size"]
    first = np.bincount(found[:, 1], minlength=words)
    assert fits(first, p([1]))
    often = int(np.argmax(np.where(np.arange(words) == END, 0, first)))
    second = found[found[:, 1] == often, 2]
    assert len(second) > 200
    assert fits(np.bincount(second, minlength=words), p([1, often]))
    assert not fits(np.bincount(second, minlength=words), p([1, (often + 1) % words]))


def test_truncated_distributions():
    logits = np.log([0.4, 0.1, 0.3, 0.1, 0.1]).tolist()

    def p(*settings):
        return _core.sampling_probabilities(logits, *settings)

    def near(values):
        return pytest.approx(values, abs=1e-6)

    assert p(1.0, 0, 1.0) == near([0.4, 0.1, 0.3, 0.1, 0.1])
    assert p(1.0, 2, 1.0) == near([4 / 7, 0, 3 / 7, 0, 0])
    assert p(1.0, 3, 1.0) == near([0.4, 0.1, 0.3, 0.1, 0.1])  # ties are kept
    assert p(1.0, 99, 1.0) == near([0.4, 0.1, 0.3, 0.1, 0.1])
    assert p(1.0, 0, 0.69) == near([4 / 7, 0, 3 / 7, 0, 0])
    assert p(1.0, 0, 0.75) == near([0.5, 0.125, 0.375, 0, 0])  # the smaller id of a tie
    assert p(1.0, 0, 1e-9) == near([1, 0, 0, 0, 0])
    assert p(0.5, 0, 1.0) == near(np.array([16, 1, 9, 1, 1]) / 28)
    assert p(1e-30, 0, 1.0) == near([1, 0, 0, 0, 0])
    banned = [-np.inf, 0.0, -np.inf]
    assert _core.sampling_probabilities(banned, 1.0, 2, 1.0) == near([0, 1, 0])


@pytest.mark.parametrize("variant", ["evolving", "skips"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_sentence_has_its_own_random_numbers(variant, dtype):
    model, rows = trained(variant, dtype), sources()
    settings = {**DRAWN, "num_return_sequences": 2, "temperature": 1.5, "seed": 7}
    settings["return_dict_in_generate"] = True
    numbers = np.array([7, 0, 3, 2**40, 5, 9])
    together = model.generate(**padded(rows), **settings, sentence_numbers=numbers)
    assert len({tuple(row) for row in together.sequences}) > len(rows)

    def both(order):
        return np.stack([2 * order, 2 * order + 1], axis=1).reshape(-1)

    def assert_rows(out, order):
        width = out.sequences.shape[1]
        expected = together.sequences[both(order)]
        assert np.array_equal(out.sequences, expected[:, :width])
        assert (expected[:, width:] == 0).all()
        scores = together.sequences_scores[both(order)]
        assert np.array_equal(out.sequences_scores, scores)

    order = np.random.default_rng(0).permutation(len(rows))
    given = padded([rows[i] for i in order], 4, True)
    shuffled = model.generate(**given, **settings, sentence_numbers=numbers[order])
    assert_rows(shuffled, order)
    for i, row in enumerate(rows):
        alone = model.generate(row[None], **settings, sentence_numbers=numbers[[i]])
        assert_rows(alone, np.array([i]))
    before = ea.get_num_threads()
    try:
        ea.set_num_threads(3)
        threads = model.generate(**padded(rows), **settings, sentence_numbers=numbers)
    finally:
        ea.set_num_threads(before)
    assert_rows(threads, np.arange(len(rows)))
    whole = model.generate(
        **padded(rows), **settings, sentence_numbers=numbers, use_cache=False
    )
    if dtype == "float32":
        assert np.array_equal(whole.sequences, together.sequences)


def test_numbers_copies_and_seeds_are_different_targets():
    model = tiny("vanilla").eval()
    settings = {**DRAWN, "num_return_sequences": 3}
    rows = [[4, 5, 6]] * 4
    found = model.generate(rows, **settings, seed=0)
    assert len({tuple(row) for row in found}) == 12
    assert not np.array_equal(found, model.generate(rows, **settings, seed=1))
    assert np.array_equal(found, model.generate(rows, **settings, seed=0))
    one = model.generate(rows, **{**settings, "num_return_sequences": 1}, seed=0)
    assert np.array_equal(one, found[::3][:, : one.shape[1]])


def test_without_a_seed_the_generator_gives_one():
    model = tiny("vanilla").eval()
    rows = [[4, 5, 6]] * 4
    ea.manual_seed(3)
    first = model.generate(rows, **DRAWN)
    second = model.generate(rows, **DRAWN)
    ea.manual_seed(3)
    assert np.array_equal(model.generate(rows, **DRAWN), first)
    assert not np.array_equal(first, second)
    state = ea.get_rng_state()
    model.generate(rows, **DRAWN, seed=5)
    assert ea.get_rng_state() == state


@pytest.mark.parametrize(
    "options", [{"top_k": 1}, {"temperature": 1e-6}, {"top_p": 1e-6}]
)
def test_the_most_probable_token_alone(options):
    model, given = trained(), padded(sources())
    settings = {**DRAWN, **options}
    greedy = model.generate(**given, max_new_tokens=12)
    assert np.array_equal(model.generate(**given, **settings), greedy)


def test_scores_of_drawn_targets_are_the_models():
    model, rows = trained(dtype="float64"), sources()
    out = model.generate(
        **padded(rows),
        **{**DRAWN, "temperature": 1.4, "top_k": 5},
        seed=2,
        length_penalty=0.0,
        return_dict_in_generate=True,
    )
    for i, row in enumerate(rows):
        ids = [1, *[token for token in out.sequences[i, 1:] if token != 0]]
        log_p = log_probabilities(model, row, [ids[:-1]])[0]
        expected = log_p[np.arange(len(ids) - 1), ids[1:]]
        found = out.token_scores[i, : len(ids) - 1]
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
        assert out.sequences_scores[i] == pytest.approx(expected.sum(), rel=1e-6)
