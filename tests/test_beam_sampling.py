"""Beam sampling: its definition with the same random numbers, its distribution."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_generation import END, log_probabilities, padded, sources, trained
from helpers_transformer import SIZES, tiny
from scipy import stats

import evolving_attention as ea
from evolving_attention import _core

LIMIT = 8


def truncated(log_p, temperature, top_k, top_p):
    """Returns log p / temperature, -inf for excluded tokens; at least two remain."""
    z = log_p / temperature
    if top_k:
        z = np.where(z < np.sort(z)[-max(top_k, 2)], -np.inf, z)
    p = np.exp(z - z.max())
    order = np.argsort(p, kind="stable")
    sums = np.cumsum(p[order] / p.sum())
    z[order[:-2][sums[:-2] <= 1 - top_p]] = -np.inf
    return z


def definition(model, row, number, num_beams, seed, temperature, top_k, top_p):
    """Returns (score, target) pairs, best first, by transformers' beam sampling."""
    running, finished = [(0.0, [1])], []
    for n in range(1, LIMIT + 1):
        log_p = log_probabilities(model, row, [ids for _, ids in running])[:, -1]
        every = [
            (score + p, [*ids, token])
            for (score, ids), each in zip(running, log_p, strict=True)
            for token, p in enumerate(truncated(each, temperature, top_k, top_p))
            if p > -np.inf
        ]
        weights = np.exp([score - max(every)[0] for score, _ in every])
        found = []
        for i in range(min(2 * num_beams, len(every))):
            u = _core.sampling_number(seed, number, i, n)
            at = np.searchsorted(np.cumsum(weights), u * weights.sum(), "right")
            found.append(every[at])
            weights[at] = 0.0
        stops = [ids[-1] == END or n == LIMIT for _, ids in found]
        finished += [
            (score / n, ids)
            for (score, ids), stop in list(zip(found, stops, strict=True))[:num_beams]
            if stop
        ]
        finished = sorted(finished, key=lambda pair: -pair[0])[:num_beams]
        running = [f for f, stop in zip(found, stops, strict=True) if not stop]
        running = sorted(running, key=lambda pair: -pair[0])[:num_beams]
        if not running or (
            len(finished) == num_beams and running[0][0] / n <= finished[-1][0]
        ):
            break
    return finished


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, None, 1.0), (1.8, None, 1.0), (1.5, 4, 1.0), (2.0, None, 0.8), (1.0, 1, 1)],
)
def test_targets_and_scores_are_those_of_the_definition(temperature, top_k, top_p):
    model, rows = trained(dtype="float64"), sources()[:4]
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": 5}
    numbers = [3, 0, 2**33, 8]
    out = model.generate(
        **padded(rows),
        do_sample=True,
        num_beams=3,
        num_return_sequences=2,
        max_new_tokens=LIMIT,
        sentence_numbers=numbers,
        return_dict_in_generate=True,
        **options,
    )
    best = 0
    for i, (row, number) in enumerate(zip(rows, numbers, strict=True)):
        expected = definition(model, row, number, 3, **options)
        for at, (score, target) in enumerate(expected[:2], start=2 * i):
            found = out.sequences[at]
            assert found[: len(target)].tolist() == target
            assert (found[len(target) :] == 0).all()
            assert out.sequences_scores[at] == pytest.approx(score, rel=1e-5)
            terms = out.token_scores[at].sum() / (len(target) - 1)
            assert terms == pytest.approx(score, rel=1e-5)
        likely = model.generate(row[None], num_beams=3, max_new_tokens=LIMIT)[0]
        best += expected[0][1] == likely.tolist()
    assert top_k == 1 or best < len(rows)  # otherwise nothing was sampled


def test_pairs_are_drawn_without_replacement():
    model, row, draws = (
        tiny("vanilla", dtype="float64").eval(),
        np.array([4, 5, 3]),
        6000,
    )
    found = model.generate(
        np.tile(row, (draws, 1)),
        do_sample=True,
        top_k=None,
        num_beams=2,
        num_return_sequences=2,
        max_new_tokens=1,
        seed=1,
    )
    words = SIZES["vocab_size"]
    pairs = np.sort(found[:, 1].reshape(draws, 2))
    p = np.exp(log_probabilities(model, row, [[1]])[0, -1])
    a, b = np.triu_indices(words, 1)
    expected = draws * p[a] * p[b] * (1 / (1 - p[a]) + 1 / (1 - p[b]))
    counts = np.bincount(pairs @ [words, 1], minlength=words**2)[a * words + b]
    assert counts.sum() == draws
    often = expected >= 5
    observed = [*counts[often], counts[~often].sum()]
    summed = [*expected[often], expected[~often].sum()]
    assert len(summed) > 20
    assert stats.chisquare(observed, summed, sum_check=False).pvalue > 1e-3


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_sentence_has_its_own_random_numbers(dtype):
    model, rows = trained("evolving", dtype), sources()
    settings = {"do_sample": True, "num_beams": 3, "num_return_sequences": 3}
    settings |= {"temperature": 1.5, "seed": 7, "max_new_tokens": LIMIT}
    numbers = np.array([7, 0, 3, 2**40, 5, 9])

    def made(order, **options):
        given = padded([rows[i] for i in order], 2, True)
        return model.generate(
            **given,
            **{**settings, **options},
            sentence_numbers=numbers[order],
            return_dict_in_generate=True,
        )

    def assert_rows(out, order):
        at = (3 * np.asarray(order)[:, None] + np.arange(3)).reshape(-1)
        expected, width = together.sequences[at], out.sequences.shape[1]
        assert np.array_equal(out.sequences, expected[:, :width])
        assert (expected[:, width:] == 0).all()
        assert np.array_equal(out.sequences_scores, together.sequences_scores[at])

    every = np.arange(len(rows))
    together = made(every)
    assert not np.array_equal(made(every, seed=8).sequences, together.sequences)
    order = np.random.default_rng(0).permutation(len(rows))
    assert_rows(made(order), order)
    for i in every[:3]:
        assert_rows(made([i]), [i])
    before = ea.get_num_threads()
    try:
        ea.set_num_threads(3)
        assert_rows(made(every), every)
    finally:
        ea.set_num_threads(before)
