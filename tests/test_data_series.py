"""Collections of series: forms, missing values, scaling, and batches of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import evolving_attention as ea
from evolving_attention.data.loader import PackedLoader
from evolving_attention.data.series import SeriesRows, as_series, read
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


def test_numbered_steps_of_data_frames_are_in_their_order() -> None:
    """Text sorts t10 before t2: as an index it is sorted, in columns refused."""
    pandas = pytest.importorskip("pandas")
    steps = [f"t{i}" for i in range(12)]
    wide = pandas.DataFrame(RNG.normal(size=(3, 12)), list("abc"), columns=steps)
    long = wide.stack().rename_axis(["id", "step"]).to_frame("v")
    for table in (long, long.sort_index()):
        found = read(table)
        np.testing.assert_array_equal(np.concatenate(found.series), wide)
        assert found.ids == ("a", "b", "c")
    mixed = wide[sorted(steps)]
    named = mixed.rename_axis(columns="time")
    for given in (mixed, [named, named], [mixed.T, mixed.T]):
        with pytest.raises(ea.InputError, match=r"'t11' comes before 't2'.*by number"):
            read(given)
    turned = wide[steps[::-1]]  # lags fall
    np.testing.assert_array_equal(np.concatenate(read(turned).series), turned)


def test_cells_that_hold_series_are_refused() -> None:
    """sktime's nested DataFrames; the remedies of the message work."""
    pandas = pytest.importorskip("pandas")
    cube = RNG.normal(size=(3, 2, 5))
    X = pandas.DataFrame({c: [pandas.Series(x) for x in cube[:, c]] for c in (0, 1)})
    said = r"each cell is a series.*\[np\.stack\(list\(row\)\) for row in np\.asarray"
    with pytest.raises(ea.ShapeError, match=said):
        read(X)
    packed = [np.stack(list(row)) for row in np.asarray(X)]
    np.testing.assert_array_equal(as_series(packed), cube)
    with pytest.raises(ea.ShapeError, match=r"such as list\(X\)"):
        read(pandas.Series(list(cube[:, 0])))


def test_the_axis_of_time_of_data_frames() -> None:
    pandas = pytest.importorskip("pandas")
    cube = RNG.normal(size=(4, 3, 6))  # 3 channels, 6 steps

    def frames(change=None, shape=slice(None)):
        made = [pandas.DataFrame(one.T[shape]) for one in cube]
        return [change(frame) if change else frame for frame in made]

    def turned(change):
        return lambda frame: change(frame).T

    dates = pandas.date_range("2020-01-01", periods=6)
    columns = ["x", "y", "z"]
    named = lambda frame: frame.set_axis(columns, axis=1)  # noqa: E731
    dated = lambda frame: frame.set_axis(dates)  # noqa: E731
    timed = lambda frame: frame.rename_axis(index="time")  # noqa: E731
    cases = {  # frames, time axis, whether that axis is doubtful
        "tall": (frames(), 1, False),
        "aeon's own": (frames(turned(lambda frame: frame)), 2, True),
        "names over time": (frames(named), 1, False),
        "names with time": (frames(turned(named)), 2, False),
        "names, few steps": (frames(named, slice(2)), 1, True),
        "dates, few steps": (frames(lambda f: dated(f)[:2]), 1, False),
        "dates as columns": (frames(turned(dated)), 2, False),
        "a name of the index": (frames(lambda f: timed(f)[:2]), 1, False),
        "a name of the columns": (frames(turned(timed)), 2, False),
        "square": (frames(None, slice(3)), 1, True),
    }
    for name, (given, axis, doubtful) in cases.items():
        found = read(given)
        assert (found.time_axis, found.doubt is not None) == (axis, doubtful), name
        steps = given[0].shape[axis - 1]
        np.testing.assert_array_equal(found.series, cube[:, :, :steps], err_msg=name)
        assert read(given, time_axis=3 - axis).series[0].shape == (steps, 3), name
        assert read(given, time_axis=axis).doubt is None, name

    lengths = [2, 3, 4]  # fewer steps than channels, but only time varies
    short = [pandas.DataFrame(np.ones((n, 5))) for n in lengths]
    assert [one.shape for one in as_series(short)] == [(5, n) for n in lengths]
    wide = [frame.T for frame in short]
    assert [one.shape for one in as_series(wide)] == [(5, n) for n in lengths]


def test_arrays_with_time_first() -> None:
    cube = RNG.normal(size=(4, 6, 30))
    first = cube.transpose(0, 2, 1)
    assert read(cube).doubt is None
    for given in (first, list(first)):
        doubt = read(given).doubt
        assert doubt == "X has 30 channels and 6 time steps: is time first? time_axis=1"
        found = read(given, time_axis=1)
        np.testing.assert_array_equal(found.series, cube)
        assert str(found) == "4 series, 6 channels, 30 time steps; axis 1 is time"
        assert found.doubt is None
    assert read(first, earlier=(False, 2)).doubt is None  # reported at fit


def test_tables_with_an_index_of_series_and_time() -> None:
    pandas = pytest.importorskip("pandas")
    series = ragged((3, 5, 2))
    rows = [
        {"id": name, "time": step, "value": x, "b": y}
        for name, one in zip("abc", series, strict=True)
        for step, (x, y) in enumerate(one.T)
    ]
    long = pandas.DataFrame(rows)
    table = long.set_index(["id", "time"])
    for given in (
        table,
        table[table["value"] < 99],
        table.iloc[[2, 0, 1, *range(3, 10)]],
    ):
        found = read(given)
        assert found.doubt is None
        for one, wanted in zip(found.series, series, strict=True):
            np.testing.assert_array_equal(one, wanted)
    assert "sorted order of id" in read(table.iloc[::-1]).doubt


@pytest.mark.parametrize(
    ("times", "order"),
    [
        (["1/1/2020", "10/1/2020", "2/1/2020"], [0, 2, 1]),
        (["2020-01-03", "2020-01-01", "2020-01-02"], [1, 2, 0]),
        (["2024-05-31 00:00:01", "2024-05-31 00:00:00.5", "2024-05-31"], [2, 1, 0]),
        (["1e1", "9", "-2.5"], [2, 1, 0]),
        (["t10", "t9", "t1"], [2, 1, 0]),
    ],
)
def test_times_written_as_text_are_sorted_as_times(
    times: list[str], order: list[int], tmp_path
) -> None:
    pandas = pytest.importorskip("pandas")
    rows = [(i, t, x) for i in "ab" for t, x in zip(times, (5.0, 6, 7), strict=True)]
    long = pandas.DataFrame(rows, columns=["id", "time", "value"])
    for one in read(long.set_index(["id", "time"])).series:
        assert one[0].tolist() == [5.0 + i for i in order]
    long.to_csv(tmp_path / "a.csv", index=False)
    part = ea.timeseries.read_csv(tmp_path / "a.csv", labelled=False)
    assert np.array_equal(
        part.X[0][0], read(long.set_index(["id", "time"])).series[0][0]
    )


def test_times_that_have_no_order_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"id": [0, 0], "day": ["mon", "fri"], "x": [1.0, 2.0]})
    with pytest.raises(
        ea.InputError, match="row 0 has the time 'mon', neither a number nor a date"
    ):
        read(table.set_index(["id", "day"]))
    table["day"] = pandas.Categorical(table["day"], ["mon", "fri"], ordered=True)
    assert read(table.set_index(["id", "day"])).series[0].tolist() == [[1.0, 2.0]]
    table["day"] = pandas.Categorical(table["day"], ["fri", "mon"])
    assert read(table.set_index(["id", "day"])).series[0].tolist() == [[2.0, 1.0]]
    table["day"] = ["t1", "x"]
    with pytest.raises(ea.InputError, match="row 1 has the time 'x'"):
        read(table.set_index(["id", "day"]))
    table["day"] = ["1", "1.0"]
    with pytest.raises(ea.InputError, match=r"\(0, 1.0\) comes twice"):
        read(table.set_index(["id", "day"]))


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_masked_values_are_missing(dtype) -> None:
    values = np.array([[[1, -99, 3], [4, 5, 6]]], dtype)
    given = np.ma.masked_array(values, mask=values < 0)
    for one in (given, list(given), np.ma.masked_array(values)[:, 1:]):
        (found,) = read(one).series
        assert np.isnan(found).sum() == np.ma.count_masked(one[0])
    assert np.array_equal(read(given).series[0][0], [1, np.nan, 3], equal_nan=True)


def test_padding_at_the_end_is_cut_off_and_gaps_stay() -> None:
    one = np.array([[1.0, NAN, 3.0, NAN, NAN], [NAN, NAN, NAN, 4.0, NAN]])
    (found,) = as_series([one])
    np.testing.assert_array_equal(found, one[:, :4])
    assert read([one]).longest == 5
    assert read(np.zeros((3, 7))).table == 7
    assert read(np.zeros((3, 2, 7))).table is None


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
        assert b"\n" in data[size - 1 : size + 1]  # truncated between lines
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


def test_ts_files_are_read_as_aeon_reads_them() -> None:
    datasets = pytest.importorskip("aeon.datasets", reason="no aeon (extra timeseries)")
    folder = Path(datasets.__file__).parent / "data"
    files = sorted(folder.glob("*/*_TRAIN.ts"))
    assert files
    for file in files:
        if "TimeStamps" in file.name:  # aeon reads them without their signs
            continue
        X, y = datasets.load_from_ts_file(str(file))
        part = ea.timeseries.read_ts(file)
        assert isinstance(part.X, list) == isinstance(X, list)
        for ours, theirs in zip(part.X, X, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(part.y, y)
        assert part.y.dtype == y.dtype


def test_the_forms_of_a_ts_file(tmp_path) -> None:
    file = tmp_path / "series"  # without a suffix
    text = "@targetLabel true\n@data\n1,?:2\n\n3,NaN:-1e1\n"
    for written in (text, "\ufeff" + text, text.replace("\n", "\r\n")):
        file.write_bytes(written.encode())
        part = ea.timeseries.read_ts(file)
        assert part.is_regression
        np.testing.assert_array_equal(part.X, [[[1, np.nan]], [[3, np.nan]]])
        assert part.y.tolist() == [2, -10]
    file.write_text("@classLabel true banana fig?\n@data\n1:banana\n2:fig?\n")
    assert ea.timeseries.read_ts(file).y.tolist() == ["banana", "fig?"]
