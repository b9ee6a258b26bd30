"""Span corruption: each token once, spans as drawn, rows depend on their number."""

from __future__ import annotations

import numpy as np
import pytest

import evolving_attention as ea

FIRST, END = 99, 1


def rows(*lengths):
    return [np.arange(100, 100 + n) for n in lengths]


def corrupt(given, **options):
    settings = {"first_sentinel": FIRST, "num_sentinels": 20, **options}
    return ea.corrupt_spans(given, **settings)


def spans_of(ids):
    """Maps each sentinel to the tokens after it; tokens before the first have None."""
    assert ids[-1] == END
    spans, mark = {None: []}, None
    for token in ids[:-1].tolist():
        if token < 100:
            spans[mark := token] = []
        else:
            spans[mark].append(token)
    return spans


@pytest.mark.parametrize("n", [2, 3, 7, 50, 512])
@pytest.mark.parametrize(("ratio", "mean"), [(0.15, 3.0), (0.5, 3.0), (0.15, 10.0)])
def test_source_and_target_give_the_text_back(n, ratio, mean):
    given = rows(n)
    (source,), (target,) = corrupt(given, ratio=ratio, mean_span=mean, num_sentinels=90)
    shown, hidden = spans_of(source), spans_of(target)
    marks = list(shown)[1:]
    assert marks == list(range(FIRST, FIRST - len(marks), -1)) == list(hidden)[1:]
    text = []
    for before, mark in zip([None, *marks], marks, strict=False):
        text += shown[before] + hidden[mark]
    assert text == given[0].tolist()
    assert hidden[None] == shown[marks[-1]] == []
    count = min(max(round(n * ratio), 1), n - 1)
    assert sum(map(len, hidden.values())) == count
    assert len(marks) == min(max(round(count / mean), 1), n - count)
    assert all(hidden[mark] for mark in marks)


def test_the_bits_are_these():
    source, target = corrupt(rows(20, 9), ratio=0.3, mean_span=2.0, seed=7)
    again = corrupt(rows(20, 9), ratio=0.3, mean_span=2.0, seed=7)
    for first, second in zip(source + target, again[0] + again[1], strict=True):
        assert first.dtype == np.int64
        assert np.array_equal(first, second)
    assert source[0].tolist() == EXPECTED[0]
    assert target[0].tolist() == EXPECTED[1]


EXPECTED = (
    [*range(100, 104), 99, 105, 98, *range(110, 119), 97, 1],
    [99, 104, 98, *range(106, 110), 97, 119, 1],
)


def test_a_row_has_its_spans_in_any_batch():
    given = rows(40, 30, 20)
    whole = corrupt(given, seed=3)
    for i, row in enumerate(given):
        (source,), (target,) = corrupt([row], seed=3, first_row=i)
        assert np.array_equal(source, whole[0][i])
        assert np.array_equal(target, whole[1][i])
    other = corrupt(given, seed=4)[0]
    assert not np.array_equal(other[0], whole[0][0])


def test_every_division_is_as_likely():
    """3 of 6 tokens are hidden in 2 spans: 2 divisions of each kind, 4 in all."""
    sources, _ = corrupt(rows(*[6] * 4000), ratio=0.5, mean_span=1.5)
    found, counts = np.unique(np.stack(sources), axis=0, return_counts=True)
    assert len(found) == 4
    assert np.all(np.abs(counts - 1000) < 120)


def test_a_model_trains_on_them():
    pair = ea.translation.ParallelDataset(*corrupt(rows(9, 14)))
    assert len(pair) == 2


@pytest.mark.parametrize(
    ("given", "options", "error", "text"),
    [
        (rows(5), {"ratio": 0.0}, ea.ConfigError, "ratio=0.0"),
        (rows(5), {"mean_span": 0.5}, ea.ConfigError, "mean_span=0.5"),
        (rows(5), {"num_sentinels": 200}, ea.ConfigError, "num_sentinels=200"),
        (rows(5), {"eos_token_id": 95}, ea.ConfigError, "eos_token_id=95"),
        (rows(5), {"seed": -1}, ea.ConfigError, "seed=-1"),
        (rows(5, 1), {}, ea.InputError, r"rows\[1\] is int64 of shape \(1,\)"),
        ([[7, 95, 8]], {}, ea.InputError, r"rows\[0\]\[1\] = 95 is a sentinel"),
    ],
)
def test_mistakes(given, options, error, text):
    with pytest.raises(error, match=text):
        corrupt(given, **options)
