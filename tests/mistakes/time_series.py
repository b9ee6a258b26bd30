"""Mistakes with time series: collections, files, options and targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import evolving_attention as ea
from evolving_attention.data.series import as_series
from evolving_attention.data.series_scaling import SeriesScaler
from evolving_attention.estimators import targets
from mistakes.row import Row

NAN = np.nan
X = np.random.default_rng(0).normal(size=(6, 2, 5))
Y = np.array(["a", "b"] * 3)
HEAD = """@problemName Two
@timeStamps false
@missing false
@univariate false
@equalLength false
@classLabel true left right
@data
"""
LINES = "1,2,3:4,5,6:left\n7,8:9,1:right\n"
TINY = {
    "hidden_size": 8,
    "num_blocks": 1,
    "num_attention_heads": 1,
    "n_epochs": 1,
    "random_state": 0,
}


def ts(folder: Path, text: str, name: str = "Two_TRAIN.ts") -> Path:
    """Writes a .ts file and returns its path."""
    file = folder / name
    file.write_text(text)
    return file


def read(text: str) -> Any:
    """Reads a .ts file with this text."""
    return lambda folder: ea.timeseries.read_ts(ts(folder, text))


def fit(series: Any = X, y: Any = Y, **options: Any) -> Any:
    """Fits a tiny classifier on these series."""
    return ea.TimeSeriesClassifier(**{**TINY, **options}).fit(series, y)


def regress(series: Any = X, y: Any = Y) -> Any:
    return ea.TimeSeriesRegressor(**TINY).fit(series, y)


def long_table(
    series: str = "id", time: str = "time", steps: tuple[int, ...] = (0, 1, 2)
) -> Any:
    """Returns a DataFrame of six series, one row per time step."""
    import pandas as pd

    rows = [(i, step, X[i, 0, step]) for i in range(6) for step in steps]
    return pd.DataFrame(rows, columns=[series, time, "value"])


def with_value(value: float, series: Any = X) -> np.ndarray:
    """Returns the series with one value changed: series 3, channel 1, step 2."""
    changed = series.copy()
    changed[3, 1, 2] = value
    return changed


def lost(folder: Path) -> Any:
    return ea.timeseries.load("Nowhere", folder)


ROWS = {
    # --- collections
    "one series without its axis": Row(
        lambda _: as_series(X[0, 0]),
        ea.ShapeError,
        r"shape \(5,\)",
        r"X: ",
        r"\[n, channels, length\].*Reshape your data",
    ),
    "one series of several channels alone": Row(
        lambda _: fit().predict(X[0]),
        ea.ShapeError,
        r"1 channels, expected 2 as in training",
        r"X: ",
        r"one series alone X\[None\]",
    ),
    "four axes": Row(
        lambda _: as_series(X[None]),
        ea.ShapeError,
        r"shape \(1, 6, 2, 5\)",
        r"X: ",
        r"reshape it",
    ),
    "no series": Row(
        lambda _: as_series([]),
        ea.ShapeError,
        r"0|shape \(0,\)",
        r"X: ",
        r"expected",
    ),
    "an array of no series": Row(
        lambda _: as_series(np.zeros((0, 2, 5))),
        ea.ShapeError,
        r"0 series",
        r"X: ",
        r"expected at least one",
    ),
    "series of no steps": Row(
        lambda _: as_series(np.zeros((3, 2, 0))),
        ea.ShapeError,
        r"series are empty",
        r"shape=\(3, 2, 0\)",
        r"check how it was read",
    ),
    "an empty series among others": Row(
        lambda _: as_series([X[0], np.zeros((2, 0))]),
        ea.ShapeError,
        r"shape \(2, 0\)",
        r"X\[1\]",
        r"leave an empty series out",
    ),
    "a series with other channels": Row(
        lambda _: as_series([X[0], X[1, :1]]),
        ea.ShapeError,
        r"1 channels",
        r"X\[1\]",
        r"expected 2 as in X\[0\].*transpose",
    ),
    "a long table": Row(
        lambda _: as_series(long_table()),
        ea.ShapeError,
        r"the column 'id' is no time step",
        r"X: ",
        r"X\.set_index\(\['id', 'time'\]\), with one y per series",
    ),
    "a long table with other names": Row(
        lambda _: as_series(long_table("patient", "hour")),
        ea.ShapeError,
        r"'patient' and 'hour' look like the number of a series and its time step",
        r"X: ",
        r"X\.set_index\(\['patient', 'hour'\]\)",
    ),
    "a long array": Row(
        lambda _: as_series(long_table().to_numpy()),
        ea.ShapeError,
        r"columns 0 and 1 look like the number of a series",
        r"X: ",
        r"pd\.DataFrame\(X\)\.set_index\(\[0, 1\]\)",
    ),
    "an index of time and series": Row(
        lambda _: as_series(long_table().set_index(["time", "id"])),
        ea.ShapeError,
        r"the first index level is 'time'",
        r"X: ",
        r"X\.swaplevel\(\)",
    ),
    "a time step twice": Row(
        lambda _: as_series(long_table(steps=(0, 1, 1)).set_index(["id", "time"])),
        ea.InputError,
        r"\(series, time\) = \(0, 1\) comes twice",
        r"X: ",
        r"expected each time step once",
    ),
    "three index levels": Row(
        lambda _: as_series(long_table().set_index(["id", "time", "value"])),
        ea.ShapeError,
        r"3 index levels",
        r"X: ",
        r"expected two, \(series, time\)",
    ),
    "frames among arrays": Row(
        lambda _: as_series([X[0], long_table()]),
        ea.ShapeError,
        r"DataFrames and arrays in one list",
        r"X: ",
        r"convert them alike",
    ),
    "an axis of time that is none": Row(
        lambda _: fit(time_axis=0),
        ea.ConfigError,
        r"time_axis=0",
        r"TimeSeriesClassifier",
        r"expected 1 for \[n, length, channels\], 2 for",
    ),
    "ragged lists": Row(
        lambda _: as_series([[1.0, 2.0], [3.0]]),
        ea.ShapeError,
        r"differ in length",
        r"X: ",
        r"make each series an array",
    ),
    "text among numbers": Row(
        lambda _: as_series([X[0], np.array([["1", "x"], ["2", "3"]], object)]),
        ea.DTypeError,
        r"not all values are numbers.*'x'",
        r"X\[1\]",
        r"missing values as NaN",
    ),
    "series of text": Row(
        lambda _: as_series(np.array([["1", "2"]])),
        ea.DTypeError,
        r"<U1",
        r"X: ",
        r"astype\(float\)",
    ),
    "dates": Row(
        lambda _: as_series(np.zeros((2, 3), "datetime64[s]")),
        ea.DTypeError,
        r"datetime64",
        r"X: ",
        r"astype\(float\)",
    ),
    "complex numbers": Row(
        lambda _: as_series(X * 1j),
        ea.DTypeError,
        r"Complex data not supported",
        r"X: ",
        r"two channels",
    ),
    "infinity": Row(
        lambda _: as_series(with_value(-np.inf)),
        ea.InputError,
        r"-inf.*infinity",
        r"X\[3\]\[1, 2\]",
        r"missing value is NaN",
    ),
    "a series of NaN alone": Row(
        lambda _: as_series([X[0], np.full((2, 4), NAN)]),
        ea.InputError,
        r"every value is NaN",
        r"X\[1\]",
        r"leave the series out",
    ),
    "a channel that is missing everywhere": Row(
        lambda _: SeriesScaler().fit(as_series(np.where([[[1], [0]]], X, NAN))),
        ea.InputError,
        r"channel 1 is missing",
        r"X: .*every series",
        r"leave the channel out",
    ),
    "NaN where it is refused": Row(
        lambda _: SeriesScaler("none", "refuse").fit(as_series(with_value(NAN))),
        ea.InputError,
        r"is NaN",
        r"X\[3\]\[1, 2\]",
        r"missing='interpolate'",
    ),
    "a value beyond float32": Row(
        lambda _: SeriesScaler("none").fit(list(X)).transform(list(with_value(1e300))),
        ea.InputError,
        r"1e\+300 after scaling",
        r"X\[3\]\[1, 2\]",
        r"correct or clip it",
    ),
    "values whose deviation is infinite": Row(
        lambda _: SeriesScaler().fit(list(with_value(1e300))),
        ea.InputError,
        r"up to 1e\+300",
        r"X: channel 1",
        r"correct or clip them",
    ),
    "a scale that is not": Row(
        lambda _: SeriesScaler("minmax"),
        ea.ConfigError,
        r"'minmax'",
        r"scale",
        r"channel, series, none",
    ),
    # --- files
    "a .ts file that is not there": Row(
        lambda f: ea.timeseries.read_ts(f / "no.ts"),
        ea.DataError,
        r"no such file",
        r"no\.ts",
        r"check the path",
    ),
    "an empty .ts file": Row(
        read(""),
        ea.DataError,
        r"no series|no @data|has no",
        r"Two_TRAIN\.ts",
        r"Download it again",
    ),
    "a header alone": Row(
        read(HEAD),
        ea.DataError,
        r"no series",
        r"Two_TRAIN\.ts",
        r"cut short",
    ),
    "a file cut within a series": Row(
        read(HEAD + LINES + "1,2,3:4,5"),
        ea.DataError,
        r"2 parts between colons, 3 before",
        r"Two_TRAIN\.ts:10",
        r"cut short",
    ),
    "a file cut within a channel": Row(
        read(HEAD + LINES + "1,2,3:4,5:left"),
        ea.DataError,
        r"channels that differ in length",
        r"Two_TRAIN\.ts:10",
        r"cut short",
    ),
    "a file cut within a label": Row(
        read(HEAD + LINES + "1,2,3:4,5,6:lef"),
        ea.DataError,
        r"series 3 has the label 'lef'",
        r"Two_TRAIN\.ts",
        r"expected one of left, right",
    ),
    "a word for a number in a .ts file": Row(
        read(HEAD + LINES + "1,two,3:4,5,6:left\n"),
        ea.DataError,
        r"'two' in channel 0 is no number",
        r"Two_TRAIN\.ts:10",
        r"Download it again",
    ),
    "a .ts file of bytes": Row(
        lambda f: (
            (f / "b.ts").write_bytes(b"\xff\xfe@data\n"),
            ea.timeseries.read_ts(f / "b.ts"),
        ),
        ea.DataError,
        r"not UTF-8",
        r"b\.ts",
        r"expected the \.ts format",
    ),
    "a .ts file with time stamps": Row(
        read(HEAD.replace("@timeStamps false", "@timeStamps true") + "(0,-1):left\n"),
        ea.DataError,
        r"has time stamps",
        r"Two_TRAIN\.ts",
        r"write them without time stamps",
    ),
    "a .ts file with yes for true": Row(
        read(HEAD.replace("@equalLength false", "@equalLength no") + LINES),
        ea.DataError,
        r"@equallength 'no', expected true or false",
        r"Two_TRAIN\.ts",
        r"correct the line",
    ),
    "series that differ in length under @equalLength true": Row(
        read(HEAD.replace("@equalLength false", "@equalLength true") + LINES),
        ea.DataError,
        r"2 time steps, 3 before, without @equalLength false",
        r"Two_TRAIN\.ts:9",
        r"expected the \.ts format",
    ),
    "a table of numbers as a .ts file": Row(
        read("a,b\n1,2\n"),
        ea.DataError,
        r"first line is 'a,b'",
        r"Two_TRAIN\.ts:1",
        r"ea\.timeseries\.read_csv",
    ),
    "a .ts file without targets": Row(
        read(HEAD.replace("true left right", "false") + "1,2:3,4\n"),
        ea.DataError,
        r"no targets",
        r"Two_TRAIN\.ts",
        r"add them",
    ),
    "a data set that is nowhere": Row(
        lost,
        ea.DataError,
        r"no Nowhere_TRAIN\.ts",
        r"timeseries/Nowhere",
        r"check the name or data_dir",
    ),
    "a data set misspelt": Row(
        lambda _: ea.timeseries.load("JapaneseVowel"),
        ea.DataError,
        r"'JapaneseVowel'",
        r"aeon",
        r"did you mean 'JapaneseVowels'",
    ),
    "a path for a name": Row(
        lambda _: ea.timeseries.load("data/GunPoint"),
        ea.DataError,
        r"'data/GunPoint'",
        r"data set",
        r"give files by their paths",
    ),
    # --- targets
    "fewer labels than series": Row(
        lambda _: fit(y=Y[:-1]),
        ea.ShapeError,
        r"5 targets for 6 series",
        r"y: ",
        r"one each",
    ),
    "labels of two axes": Row(
        lambda _: fit(y=np.stack([Y, Y], axis=1)),
        ea.ShapeError,
        r"\(6, 2\)",
        r"y: ",
        r"one target per series",
    ),
    "no labels": Row(
        lambda _: fit(y=None),
        ea.InputError,
        r"is None",
        r"target y",
        r"fit\(X, y\)",
    ),
    "one class only": Row(
        lambda _: fit(y=["a"] * 6),
        ea.InputError,
        r"one class, \['a'\]",
        r"y: ",
        r"at least 2 classes",
    ),
    "values for labels": Row(
        lambda _: fit(y=np.linspace(0, 1, 6)),
        ea.DTypeError,
        r"continuous",
        r"y: ",
        r"TimeSeriesRegressor",
    ),
    "labels of text and numbers": Row(
        lambda _: fit(y=np.array(["a", 1, "a", 1, "a", 1], object)),
        ea.DTypeError,
        r"int.*str|str.*int",
        r"y: ",
        r"all text or all whole numbers",
    ),
    "a label that is NaN": Row(
        lambda _: fit(y=np.array([0, 1, 0, NAN, 1, 0])),
        ea.InputError,
        r"nan: contains NaN",
        r"y\[3\]",
        r"leave series without one out",
    ),
    "labels for values": Row(
        lambda _: regress(),
        ea.DTypeError,
        r"could not convert string",
        r"y: ",
        r"TimeSeriesClassifier",
    ),
    "a value that is infinite": Row(
        lambda _: regress(y=np.array([0, 1, np.inf, 3, 4, 5])),
        ea.InputError,
        r"inf: contains NaN or infinity",
        r"y\[2\]",
        r"leave series without one out",
    ),
    "a label unseen in training": Row(
        lambda _: targets.class_numbers(np.array(["a", "z"]), np.array(["a", "b"])),
        ea.InputError,
        r"'?z'?: a label unseen in training",
        r"y\[1\]",
        r"expected one of a, b",
    ),
    # --- options
    "no epochs": Row(
        lambda _: fit(n_epochs=0),
        ea.ConfigError,
        r"n_epochs=0",
        r"TimeSeriesClassifier",
        r"a whole number from 1",
    ),
    "a share of one and a half": Row(
        lambda _: fit(validation_fraction=1.5),
        ea.ConfigError,
        r"validation_fraction=1\.5",
        r"TimeSeriesClassifier",
        r"from 0 to 0\.9",
    ),
    "patience with nothing to watch": Row(
        lambda _: fit(validation_fraction=0, patience=3),
        ea.ConfigError,
        r"validation_fraction=0",
        r"patience=3",
        r"raise validation_fraction or leave patience out",
    ),
    "a schedule that is not": Row(
        lambda _: fit(lr_schedule="cosin"),
        ea.ConfigError,
        r"'cosin'",
        r"lr_schedule",
        r"cosine",
    ),
    "a GPU for an estimator where there is none": Row(
        lambda _: fit(device="cuda:99"),
        ea.BackendUnavailable,
        r"cuda:99 is not available",
        r"device",
        r'use device="cpu"',
    ),
    "an unknown device for an estimator": Row(
        lambda _: fit(device="gpu"),
        ea.ConfigError,
        r"unknown device 'gpu'",
        r"device",
        r"cpu, cuda, cuda:N .* or auto",
    ),
    "model options that are no dict": Row(
        lambda _: fit(model_options=["kernel_size"]),
        ea.ConfigError,
        r"a list",
        r"model_options",
        r"expected a dict",
    ),
    "series above max_length": Row(
        lambda _: fit(max_length=3),
        ea.InputError,
        r"5 time steps",
        r"max_length=3",
        r"leave max_length out",
    ),
    "an estimator's folder without it": Row(
        lambda f: ea.TimeSeriesClassifier.load(f),
        ea.CheckpointError,
        r"no estimator\.json",
        r"the folder of a fitted estimator",
        r"make one by fit and save",
    ),
}

# The calls below need a fitted model.
ROWS |= {
    "a series longer than in training": Row(
        lambda _: fit().predict(np.zeros((2, 2, 9))),
        ea.InputError,
        r"9 time steps",
        r"X\[0\]",
        r"at most 5.*longer='cut' or 'resample'.*max_length=9",
    ),
    "other channels than in training": Row(
        lambda _: fit().predict(X[:, :1]),
        ea.ShapeError,
        r"1 channels",
        r"X: ",
        r"expected 2 as in training",
    ),
    "heads that do not divide the features": Row(
        lambda _: fit(num_attention_heads=3),
        ea.ConfigError,
        r"3",
        r"num_attention_heads",
        r"multiple",
    ),
    "an option no model has": Row(
        lambda _: fit(model_options={"kernel_sise": 5}),
        ea.ConfigError,
        r"'kernel_sise'",
        r"option",
        r"kernel_size",
    ),
}
