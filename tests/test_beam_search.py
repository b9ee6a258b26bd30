"""Beam search against its definition, and against an enumeration of all targets."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers_generation import (
    END,
    beams,
    greedy,
    log_probabilities,
    padded,
    sources,
    trained,
)
from helpers_transformer import SIZES, VARIANTS, tiny

LIMIT = 12
PENALTIES = [-0.5, 0.0, 0.6, 1.0, 2.0]


def assert_beams(out, n, expected):
    """Rows n·i … n·i + n − 1 must be the best n of expected[i], with these scores."""
    for i, best in enumerate(expected):
        assert len(best) >= n
        for row, (score, target) in enumerate(best[:n], start=n * i):
            found = out.sequences[row]
            assert found[: len(target)].tolist() == target
            assert (found[len(target) :] == 0).all()
            assert out.sequences_scores[row] == pytest.approx(score, rel=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_targets_and_scores_are_those_of_the_definition(variant):
    model = trained(variant)
    out = model.generate(
        **padded(sources()),
        max_new_tokens=LIMIT,
        num_beams=4,
        num_return_sequences=4,
        return_dict_in_generate=True,
    )
    assert_beams(out, 4, [beams(model, row, LIMIT, 4) for row in sources()])


@pytest.mark.parametrize("length_penalty", PENALTIES)
@pytest.mark.parametrize("early_stopping", [True, False, "never"])
def test_length_penalty_and_early_stopping(length_penalty, early_stopping):
    model = trained("vanilla")
    out = model.generate(
        **padded(sources()),
        max_new_tokens=LIMIT,
        num_beams=3,
        num_return_sequences=2,
        length_penalty=length_penalty,
        early_stopping=early_stopping,
        return_dict_in_generate=True,
    )
    expected = [
        beams(model, row, LIMIT, 3, length_penalty, early_stopping) for row in sources()
    ]
    assert_beams(out, 2, expected)


@pytest.mark.parametrize("length_penalty", PENALTIES)
@pytest.mark.parametrize("early_stopping", [True, False, "never"])
def test_the_length_penalty_of_gnmt(length_penalty, early_stopping):
    model = trained("vanilla")
    options = {"length_penalty": length_penalty, "early_stopping": early_stopping}
    out = model.generate(
        **padded(sources()),
        max_new_tokens=LIMIT,
        num_beams=3,
        num_return_sequences=2,
        length_penalty_form="gnmt",
        return_dict_in_generate=True,
        **options,
    )
    expected = [
        beams(model, row, LIMIT, 3, **options, divisor=lambda n: (5 + n) / 6)
        for row in sources()
    ]
    assert_beams(out, 2, expected)
    single = model.generate(
        **padded(sources()),
        max_new_tokens=LIMIT,
        length_penalty=length_penalty,
        length_penalty_form="gnmt",
        return_dict_in_generate=True,
    )
    tokens = (single.sequences != 0).sum(1) - 1
    sums = single.token_scores.sum(1)
    np.testing.assert_allclose(
        single.sequences_scores, sums / ((5 + tokens) / 6) ** length_penalty
    )


def test_settings_change_targets():
    """The settings give different targets, so the tests above can tell them apart."""
    model = trained("vanilla")

    def found(**settings):
        rows = model.generate(
            **padded(sources()), max_new_tokens=LIMIT, num_beams=3, **settings
        )
        return [[i for i in row if i != 0] for row in rows.tolist()]

    short, long = found(length_penalty=-0.5), found(length_penalty=2.0)
    assert sum(map(len, short)) < sum(map(len, long))
    assert found(early_stopping=True) != found(early_stopping="never")
    assert long != found(length_penalty=2.0, length_penalty_form="gnmt")
    assert found() != [greedy(model, row, LIMIT) for row in sources()]


def test_all_targets_of_two_tokens():
    """With as many beams as tokens, no target of two tokens is pruned."""
    words = 7
    model = tiny("evolving", vocab_size=words, tie_word_embeddings=False).eval()
    row = np.array([4, 5, 3])
    every = [[1, END]] + [
        [1, a, b] for a, b in itertools.product(range(words), repeat=2) if a != END
    ]
    for length_penalty in PENALTIES:
        scores = []
        for target in every:
            log_p = log_probabilities(model, row, [target[:-1]])[0]
            total = log_p[np.arange(len(target) - 1), target[1:]].sum()
            scores.append(total / (len(target) - 1) ** length_penalty)
        best = sorted(zip(scores, every, strict=True), reverse=True)
        out = model.generate(
            row[None],
            max_new_tokens=2,
            num_beams=words,
            num_return_sequences=words,
            length_penalty=length_penalty,
            early_stopping="never",
            pad_token_id=0,
            return_dict_in_generate=True,
        )
        scored = zip(out.sequences, out.sequences_scores, best, strict=False)
        for found, score, (expected, target) in scored:
            assert found[: len(target)].tolist() == target
            assert score == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("variant", ["evolving", "skips"])
def test_caches_change_no_target(variant):
    model = trained(variant, "float64")
    settings = {"num_beams": 5, "num_return_sequences": 3}
    cached = model.generate(**padded(sources()), **settings)
    whole = model.generate(**padded(sources()), **settings, use_cache=False)
    assert cached.shape[0] == 3 * len(sources())
    assert np.array_equal(cached, whole)


def test_as_many_beams_as_tokens():
    words = SIZES["vocab_size"]
    out = tiny().generate([[4, 5]], num_beams=words, num_return_sequences=words)
    assert len({tuple(row) for row in out.tolist()}) == words
