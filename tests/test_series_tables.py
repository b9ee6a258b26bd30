"""Time series in tables: long and wide CSV files, and the repr of data sets."""

from __future__ import annotations

import numpy as np
import pytest
from series_data import waves, write_ts

import evolving_attention as ea
from evolving_attention.data.series_scaling import SeriesScaler
from evolving_attention.errors import DataError

pytest.importorskip("aeon", reason="no aeon (extra timeseries)")

read_csv = ea.timeseries.read_csv


@pytest.fixture
def table(tmp_path):
    """Writes a table and returns its path."""

    def write(text: str, name: str = "own.csv"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_a_fault_of_the_disk_names_the_table() -> None:
    with pytest.raises(DataError, match=r"^/proc/self/mem: cannot be read .*the disk"):
        read_csv("/proc/self/mem")  # its beginning is no address: EIO


LONG = """id,time,a,b,label
x,2,1,2,L
w,1,5,,R
x,1,3,4,L
w,3,,,R
w,2,6,7,R
"""


def test_a_long_table(table) -> None:
    part = read_csv(table(LONG))
    assert part.ids == ("x", "w")  # in file order
    assert part.channel_names == ("a", "b")
    assert part.y.tolist() == ["L", "R"]
    nan = np.nan
    np.testing.assert_array_equal(part.X[0], [[3, 1], [4, 2]])
    np.testing.assert_array_equal(part.X[1], [[5, 6, nan], [nan, 7, nan]])


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_every_delimiter(table, delimiter) -> None:
    part = read_csv(table(LONG.replace(",", delimiter)))
    assert (len(part), part.channels) == (2, 2)


def test_a_row_for_each_channel_and_dates(table) -> None:
    text = "case_id,date,channel,value\n" + "".join(
        f"s,2024-01-{day:02},{channel},{value}\n"
        for day, channel, value in [(2, "p", 1), (10, "p", 3), (1, "p", 0), (1, "q", 5)]
    )
    part = read_csv(table(text), labelled=False)
    assert (part.y, part.ids, part.channel_names) == (None, ("s",), ("p", "q"))
    np.testing.assert_array_equal(part.X[0], [[0, 1, 3], [5, np.nan, np.nan]])


def test_a_wide_table(table) -> None:
    part = read_csv(
        table("name,0,1,2,kind\np,1,2,3,a\nq,4,5,,b\n"), target="kind", id="name"
    )
    assert (part.ids, part.y.tolist()) == (("p", "q"), ["a", "b"])
    np.testing.assert_array_equal(part.X, [[[1, 2, 3]], [[4, 5, np.nan]]])


@pytest.mark.parametrize(
    ("values", "regression", "expected"),
    [
        (("1", "2"), None, ["1", "2"]),
        (("1.0", "2.0"), None, ["1", "2"]),
        (("1.5", "2"), None, [1.5, 2.0]),
        (("1", "2"), True, [1.0, 2.0]),
        (("1.5", "2"), False, ["1.5", "2"]),
        (("01", "1"), None, ["01", "1"]),
        (
            ("9007199254740993", "9007199254740992.0"),
            None,
            [f"{1 + (1 << 53)}", str(1 << 53)],
        ),
        (("low", "2"), None, ["low", "2"]),
    ],
)
def test_labels_and_values(table, values, regression, expected) -> None:
    text = "y,0,1\n" + "".join(f"{value},1,2\n" for value in values)
    part = read_csv(table(text), regression=regression)
    assert part.y.tolist() == expected
    assert part.is_regression == isinstance(expected[0], float)


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_the_index_that_pandas_writes_is_no_step(table, name) -> None:
    wide = read_csv(table(f"{name},label,0,1\n0,A,5,6\n1,B,7,8\n"))
    np.testing.assert_array_equal(wide.X, [[[5, 6]], [[7, 8]]])
    lines = LONG.splitlines()
    text = "\n".join([f"{name},{lines[0]}", *(f"0,{one}" for one in lines[1:])])
    assert read_csv(table(text)).channel_names == ("a", "b")
    kept = read_csv(table("Unnamed: 0,label,0\np,A,5\n"), id="Unnamed: 0")
    assert kept.ids == ("p",)


def test_a_target_that_a_table_without_targets_lacks(table) -> None:
    file = table("id,time,x,y\ns,1,2,3\n")
    part = read_csv(file, target="label", labelled=False)
    assert (part.y, part.channel_names) == (None, ("x", "y"))


def test_numbered_steps_are_in_their_order(table) -> None:
    rows = "".join(f"s,t{i},{i},L\n" for i in (1, 10, 2, 32, 90))
    part = read_csv(table("id,time,a,label\n" + rows))
    np.testing.assert_array_equal(part.X[0], [[1, 2, 10, 32, 90]])


@pytest.mark.parametrize("name", ["{}", "t{}", "-{}", "{}.0"])
def test_times_that_float64_rounds_are_in_their_order(table, name) -> None:
    first = 2**53  # nanoseconds since 1970 are larger
    rows = "".join(f"s,{name.format(first + i)},{i},L\n" for i in (2, 0, 3, 1))
    part = read_csv(table("id,time,a,label\n" + rows))
    expected = [[3, 2, 1, 0]] if name == "-{}" else [[0, 1, 2, 3]]
    np.testing.assert_array_equal(part.X[0], expected)


def test_numbered_columns_are_in_their_order(table) -> None:
    """DataFrame.pivot sorts names as text; columns that fall, such as lags, stay."""
    part = read_csv(table("t0,t1,t10,t11,t2,label\n0,1,10,11,2,L\n"))
    np.testing.assert_array_equal(part.X, [[[0, 1, 2, 10, 11]]])
    part = read_csv(table("lag10,lag9,lag2,label\n10,9,2,L\n"))
    np.testing.assert_array_equal(part.X, [[[10, 9, 2]]])
    part = read_csv(table("a1,b10,a2,label\n1,10,2,L\n"))
    np.testing.assert_array_equal(part.X, [[[1, 10, 2]]])


def test_channels_in_another_order(table) -> None:
    train = read_csv(table(LONG))
    other = read_csv(table(LONG.replace("a,b", "b,a"), "test.csv"))
    with pytest.raises(ea.InputError, match="the channels b, a, expected a, b"):
        ea.timeseries.check_parts(train, other)


def test_what_data_sets_print(table, tmp_path) -> None:
    part = read_csv(table(LONG))
    assert repr(part).startswith(
        "SeriesPart(2 series, 2 channels, 2 to 3 time steps; labels L, R; "
    )
    X, y = waves(4, lengths=(12, 13))
    write_ts(tmp_path / "W_TRAIN.ts", X, y)
    write_ts(tmp_path / "W_TEST.ts", X, np.array(["1", "2", "3", "4"]))
    data = ea.timeseries.load("W", tmp_path)
    assert repr(data) == (
        "SeriesDataset('W', train: 4 series, 2 channels, 12 time steps; labels fast, "
        "slow, test: 4 series, 2 channels, 12 time steps; labels 1, 2, 3, 4)"
    )
    rows = SeriesScaler().fit(X).transform(X, np.arange(4))
    assert repr(rows) == (
        "SeriesRows(4 series, 2 channels, 12 time steps; class labels)"
    )
    many = ea.timeseries.SeriesPart(np.zeros((9, 1, 2)), np.arange(9), False, "f")
    assert repr(many) == (
        "SeriesPart(9 series, 1 channels, 2 time steps; labels 0, 1, 2, 3, 4, 5, … "
        "(9); f)"
    )


def test_a_ts_file_without_targets(tmp_path) -> None:
    X, y = waves(4)
    file = write_ts(tmp_path / "own.ts", X, y)
    lines = file.read_text().replace("@classLabel true fast slow", "@classLabel false")
    lines = lines.replace(":slow", "").replace(":fast", "")
    file.write_text(lines)
    part = ea.timeseries.read_ts(file, labelled=False)
    assert (len(part), part.y) == (4, None)
    with pytest.raises(ea.DataError, match="no targets"):
        ea.timeseries.read_ts(file)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("label,a,b\n,1,2\n,3,4\n", {}),
        ("label,a,b\ncat,1,2\n,3,4\n", {}),
        ("label,a,b\ncat,1,2\ndog,3,4\n", {"regression": True}),
        ("id,time,a,label\ns,1,1,\ns,2,2,\nt,1,3,\nt,2,4,x\n", {}),
        ("label,a,b\n1.5,1,2\nNA,3,4\n", {}),
    ],
    ids=["empty", "partly", "text", "long", "number"],
)
def test_targets_that_are_not_used_need_not_be_usable(table, text, options) -> None:
    part = read_csv(table(text), labelled=False, **options)
    assert (len(part), part.y, part.is_regression) == (2, None, False)
    np.testing.assert_array_equal(np.ravel(part.X), [1, 2, 3, 4])
    with pytest.raises(ea.DataError, match=r"is empty|is no number"):
        read_csv(table(text), **options)


def test_words_for_missing_numbers_may_be_labels_and_ids(table, caplog) -> None:
    part = read_csv(table("id,a,b,label\nNA,1,null,Some\nDE,NA,4,None\n"))
    assert (part.ids, part.y.tolist()) == (("NA", "DE"), ["Some", "None"])
    np.testing.assert_array_equal(part.X, [[[1, np.nan]], [[np.nan, 4]]])
    assert "'None' in the column 'label' is read as a label" in caplog.text
    for word in ("nan", "NaN", "?", " "):
        with pytest.raises(ea.DataError, match=r"csv:3: .*'label' is empty"):
            read_csv(table(f"a,b,label\n1,2,x\n3,4,{word}\n"))


def test_words_are_looked_for_only_in_columns_that_have_some(table, monkeypatch):
    """Each search costs as much as the reading of a short column."""
    import pandas as pd

    searched, isin = [], pd.Series.isin
    monkeypatch.setattr(
        pd.Series,
        "isin",
        lambda self, words: searched.append(self) or isin(self, words),
    )
    part = read_csv(table("t0,t1,t2\n1,2,\n3,NA,4\n"), labelled=False)
    np.testing.assert_array_equal(part.X[:, 0], [[1, 2, np.nan], [3, np.nan, 4]])
    assert [one.name for one in searched] == ["t1"]


def test_a_line_break_in_a_name(table) -> None:
    text = 'id,time,"a\nb",label\n1,0,2,x\n2,0,{},y\n'
    part = read_csv(table(text.format(3)))
    assert (part.channel_names, part.y.tolist()) == (("a\nb",), ["x", "y"])
    with pytest.raises(ea.DataError, match=r"csv:4: 'bad'"):
        read_csv(table(text.format("bad")))


def test_every_zero_is_one_label(tmp_path):
    cells = ["0.0", "-0.0", ".0", "0", "1.0", "1"]
    file = tmp_path / "zeros.csv"
    file.write_text("\n".join(["label,a,b", *(f"{one},1,2" for one in cells)]))
    assert read_csv(file).y.tolist() == ["0", "0", "0", "0", "1", "1"]


@pytest.mark.parametrize(
    "rows", ["a,12\x0034,2\nb,3,4\n", "b\x00c,1,2\n", "a,4\x00\x00\x00,\x00,,,\n"]
)
def test_a_nul_character_is_told(table, rows) -> None:
    with pytest.raises(DataError, match=r"own\.csv:3: NUL character; remove it"):
        read_csv(table("label,t1,t2\na,1,2\n" + rows))
