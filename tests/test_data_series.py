"""Collections of series: forms, missing values, scaling, and batches of them."""

from __future__ import annotations

import numpy as np
import pytest

import evolving_attention as ea
from evolving_attention.data.loader import PackedLoader
from evolving_attention.data.series import SeriesRows, as_series, given_lengths
from evolving_attention.data.series_scaling import SeriesScaler, fill_missing
from evolving_attention.training import batches

NAN = np.nan
RNG = np.random.default_rng(0)


def ragged(lengths=(3, 5, 2), channels=2) -> list[np.ndarray]:
    return [RNG.normal(size=(channels, n)) for n in lengths]


# --- forms ----------------------------------------------------------------------------


def test_every_form_gives_channels_by_length() -> None:
    cube = RNG.normal(size=(4, 2, 6))
    flat = cube[:, 0]
    pandas = pytest.importorskip("pandas")
    forms = {
        "array": (cube, cube),
        "list of arrays": (list(cube), cube),
        "list of one-channel arrays": (list(flat), flat[:, None]),
        "table": (flat, flat[:, None]),
        "list of lists": (flat.tolist(), flat[:, None]),
        "data frame": (pandas.DataFrame(flat), flat[:, None]),
        "list of data frames": ([pandas.DataFrame(one) for one in cube], cube),
        "objects": (flat.astype(object), flat[:, None]),
        "mixed numbers": (
            [cube[0].astype(int), cube[1]],
            [cube[0].astype(int), cube[1]],
        ),
    }
    for name, (given, expected) in forms.items():
        found = as_series(given)
        assert all(one.dtype == np.float64 for one in found), name
        for one, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, wanted, err_msg=name)


def test_padding_at_the_end_is_cut_off_and_gaps_stay() -> None:
    one = np.array([[1.0, NAN, 3.0, NAN, NAN], [NAN, NAN, NAN, 4.0, NAN]])
    (found,) = as_series([one])
    np.testing.assert_array_equal(found, one[:, :4])
    assert given_lengths([one]) == (5, None)
    assert given_lengths(np.zeros((3, 7))) == (7, 7)
    assert given_lengths(np.zeros((3, 2, 7))) == (7, None)


# --- missing values and scaling -------------------------------------------------------


def test_gaps_become_straight_lines() -> None:
    column = np.array([NAN, 1.0, NAN, NAN, 4.0, NAN])
    filled = fill_missing(column[:, None], np.zeros(1))
    np.testing.assert_allclose(filled[:, 0], [1, 1, 2, 3, 4, 4])
    np.testing.assert_array_equal(
        fill_missing(np.full((2, 1), NAN), np.array([7.0])), 7
    )


def test_channels_get_mean_zero_and_deviation_one() -> None:
    series = [one * 1e3 + 1e4 for one in ragged((30, 50, 20))]
    rows = SeriesScaler().fit(series).transform(series)
    np.testing.assert_allclose(rows.values.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(rows.values.std(axis=0), 1, atol=1e-5)
    assert rows.values.dtype == np.float32
    assert rows.lengths.tolist() == [30, 50, 20]


def test_each_series_on_its_own_scale() -> None:
    series = [one * factor for one, factor in zip(ragged(), (1, 50, 9), strict=True)]
    rows = SeriesScaler("series").fit(series).transform(series)
    for row in rows:
        np.testing.assert_allclose(row["values"].mean(axis=0), 0, atol=1e-6)
        np.testing.assert_allclose(row["values"].std(axis=0), 1, atol=1e-6)


def test_missing_values_do_not_count_for_the_scale() -> None:
    series = ragged((200,))
    holes = series[0].copy()
    holes[0, ::7] = NAN
    there = holes[0][~np.isnan(holes[0])]
    scaler = SeriesScaler().fit([holes])
    assert scaler.mean[0] == pytest.approx(there.mean())
    assert scaler.deviation[0] == pytest.approx(there.std())
    values = scaler.transform([holes]).values[:, 0]
    expected = np.interp(np.arange(200), np.flatnonzero(~np.isnan(holes[0])), there)
    np.testing.assert_allclose(
        values, (expected - there.mean()) / there.std(), atol=1e-5
    )


def test_a_channel_that_one_series_lacks_is_the_training_mean() -> None:
    series = ragged()
    series[1][0] = NAN
    rows = SeriesScaler().fit(series).transform(series)
    np.testing.assert_array_equal(rows[1]["values"][:, 0], 0)
    scaler = SeriesScaler("none").fit(series)
    kept = scaler.transform(series)[1]["values"][:, 0]
    np.testing.assert_array_equal(kept, np.float32(scaler.mean[0]))


def test_constant_channels_are_not_blown_up() -> None:
    series = [np.full((1, 5), 0.1), np.full((1, 3), 0.1)]
    for scale in ("channel", "series"):
        values = SeriesScaler(scale).fit(series).transform(series).values
        np.testing.assert_allclose(values, 0, atol=1e-6)


def test_scalers_are_kept_as_plain_values() -> None:
    series = ragged()
    scaler = SeriesScaler().fit(series)
    again = SeriesScaler.from_dict(scaler.to_dict())
    np.testing.assert_array_equal(
        again.transform(series).values, scaler.transform(series).values
    )


# --- rows and batches -----------------------------------------------------------------


@pytest.fixture
def rows() -> SeriesRows:
    series = ragged((3, 5, 2, 4))
    return SeriesScaler().fit(series).transform(series, np.array([0, 1, 2, 1]))


def test_rows_are_a_sequence_of_dicts(rows) -> None:
    assert len(rows) == 4
    assert [len(row["values"]) for row in rows] == [3, 5, 2, 4]
    assert rows[-1]["labels"] == 1
    assert rows[1:3].lengths.tolist() == [5, 2]
    with pytest.raises(IndexError, match="series 4 of 4"):
        rows[4]


def test_batches_are_packed(rows) -> None:
    batch = rows.gather([2, 0])
    assert batch["sequence_offsets"].tolist() == [0, 2, 5]
    assert batch["labels"].tolist() == [2, 0]
    np.testing.assert_array_equal(batch["values"][:2], rows[2]["values"])
    np.testing.assert_array_equal(batch["values"][2:], rows[0]["values"])
    assert batches.row_count(batch) == 2
    assert batches.token_count(batch) == 5


def test_batches_are_cut_by_series() -> None:
    # as many steps as series: only the name tells values from labels
    series = [np.full((1, 1), float(i)) for i in range(4)]
    rows = SeriesScaler("none").fit(series).transform(series, np.arange(4))
    parts = batches.split_rows(rows.gather(np.arange(4)), 2)
    assert [part["values"].tolist() for part in parts] == [[[0], [1]], [[2], [3]]]
    assert [part["labels"].tolist() for part in parts] == [[0, 1], [2, 3]]
    assert [part["sequence_offsets"].tolist() for part in parts] == [[0, 1, 2]] * 2


def test_the_loader_takes_series(rows) -> None:
    loader = PackedLoader(rows, 3, shuffle=False, longest_first=True, prefetch=2)
    assert [batch["row_ids"].tolist() for batch in loader] == [[1, 3, 0], [2]]


def test_a_rows_own_mistakes() -> None:
    with pytest.raises(ea.ShapeError, match="offsets from 0 to 3"):
        SeriesRows(np.zeros((2, 1)), np.array([0, 3]))
    with pytest.raises(ea.ShapeError, match="1 labels for 2 series"):
        SeriesRows(np.zeros((2, 1)), np.array([0, 1, 2]), np.zeros(1))


# --- files ----------------------------------------------------------------------------


def test_a_file_cut_anywhere_is_told_or_whole(tmp_path) -> None:
    pytest.importorskip("aeon", reason="no aeon (extra timeseries)")
    from series_data import waves, write_ts

    X, y = waves(4, lengths=(2, 4))
    data = write_ts(tmp_path / "whole.ts", X, y).read_bytes()
    cut, refused = tmp_path / "cut.ts", 0
    for size in range(len(data)):
        cut.write_bytes(data[:size])
        try:
            found = ea.timeseries.read_ts(cut)
        except ea.DataError:
            refused += 1
            continue
        assert b"\n" in data[size - 1 : size + 1]  # cut between lines
        for one, label, whole, true in zip(found.X, found.y, X, y, strict=False):
            np.testing.assert_allclose(one, whole, atol=1e-6)
            assert label == true
    assert refused > 0.9 * len(data)


def test_the_shared_data_sets_are_read(data_dir) -> None:
    pytest.importorskip("aeon", reason="no aeon (extra timeseries)")
    found = ea.timeseries.load("JapaneseVowels", data_dir)
    assert (len(found.train), len(found.test), found.train.channels) == (270, 370, 12)
    assert (found.train.longest, found.longest) == (26, 29)
    assert str(data_dir) in found.train.source
    values = ea.timeseries.load("Covid3Month", data_dir)
    assert values.is_regression
    assert values.train.y.dtype == np.float64
