"""Metrics that compare models over data sets, against the paper's own tables."""

from __future__ import annotations

import numpy as np
import pytest

import evolving_attention as ea

# Table 1 of the paper: RMSE of LSTM, GRU, ResNet, Dilated Conv, Transformer, DC-T and
# EA-DC-T on six regression sets, and the two lines it derives from them.
RMSE = [
    [3.844, 4.151, 3.369, 3.711, 3.663, 3.035, 2.957],
    [7.936, 6.919, 2.889, 2.758, 1.576, 1.127, 0.758],
    [101.863, 101.452, 95.22, 96.927, 98.035, 91.993, 91.774],
    [64.715, 65.667, 64.54, 64.813, 64.874, 59.425, 59.118],
    [43.316, 44.19, 44.723, 43.457, 44.874, 43.326, 43.261],
    [34.814, 26.961, 46.593, 39.633, 33.848, 30.075, 23.14],
]
AVG_RANK = [5.2, 5.5, 4.5, 4.7, 4.8, 2.3, 1.0]
AVG_REL_DIFF = [0.251, 0.182, 0.035, 0.009, -0.072, -0.173, -0.231]


def test_the_papers_relative_differences() -> None:
    found = ea.metrics.average_relative_difference(RMSE)
    np.testing.assert_array_equal(found.round(3), AVG_REL_DIFF)
    assert found.sum() == pytest.approx(0, abs=1e-12)


def test_the_papers_ranks_of_errors() -> None:
    pytest.importorskip("scipy")
    found = ea.metrics.average_rank(RMSE, higher_is_better=False)
    np.testing.assert_array_equal(found.round(1), AVG_RANK)


def test_ranks_of_accuracies_share_ties() -> None:
    pytest.importorskip("scipy")
    table = [[0.9, 0.8, 0.9], [0.5, 0.7, 0.6]]
    found = ea.metrics.average_rank(table, higher_is_better=True)
    np.testing.assert_array_equal(found, [(1.5 + 3) / 2, 2.0, (1.5 + 2) / 2])


@pytest.mark.parametrize(
    ("values", "error", "parts"),
    [
        ([0.9, 0.8], ea.ShapeError, r"shape \(2,\).*one data set is \[\["),
        ([[]], ea.ShapeError, r"shape \(1, 0\).*neither empty"),
        ([[1.0, 2.0], [3.0]], ea.ShapeError, "no table of numbers.*each model"),
        ([["a", "b"]], ea.ShapeError, "no table of numbers.*each model"),
        ([[1, 2], [3, np.nan]], ea.InputError, r"scores\[1, 1\] = nan.*leave that"),
        ([[1, 2], [1, -1]], ea.InputError, r"mean of errors\[1\] is 0.*above 0.*leave"),
    ],
)
def test_mistakes(values, error, parts) -> None:
    with pytest.raises(error, match=parts) as caught:
        ea.metrics.average_relative_difference(values)
    assert type(caught.value) is error


def test_ranks_ask_which_end_is_better() -> None:
    with pytest.raises(ea.ConfigError, match="True for accuracies or False"):
        ea.metrics.average_rank(RMSE)


def test_paired_differences() -> None:
    stats = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(0)
    first, second = random.normal(size=(2, 7))
    found = ea.metrics.paired_difference(first, second, confidence=0.9)
    test = stats.ttest_rel(first, second).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((test.low, test.high))
    assert found.mean == pytest.approx((first - second).mean())
    assert found.sd == pytest.approx((first - second).std(ddof=1))
    assert found.pairs == 7
    assert ea.metrics.paired_difference([2], [1]) == (1.0, None, None, None, 1)


@pytest.mark.parametrize(
    ("first", "confidence", "error", "says"),
    [
        ([1.0, 2.0], 0.95, ea.ShapeError, r"shapes \(2,\) and \(3,\), expected \[n\]"),
        ([1.0, np.nan, 2.0], 0.95, ea.InputError, r"scores\[0, 1\] = nan"),
        ([1.0, 2.0, 3.0], 95, ea.ConfigError, r"confidence=95, .* 0\.95 is usual"),
    ],
)
def test_pairs_that_are_none(first, confidence, error, says) -> None:
    with pytest.raises(error, match=says):
        ea.metrics.paired_difference(first, [1.0, 2.0, 3.0], confidence=confidence)
