"""Mistakes with the options of fits of time series."""

from __future__ import annotations

import numpy as np
import pandas as pd

import evolving_attention as ea
from mistakes.row import Row
from mistakes.time_series import NAN, TINY, X, Y, fit

ROWS = {
    "too few weights": Row(
        lambda _: fit().fit(X, Y, sample_weight=[1.0, 2.0]),
        ea.ShapeError,
        r"shape \(2,\) for 6 series",
        r"sample_weight",
        r"expected \[6\], one weight for each",
    ),
    "a weight below 0": Row(
        lambda _: fit().fit(X, Y, sample_weight=[1, 1, -1, 1, 1, 1]),
        ea.InputError,
        r"= -1\.0",
        r"sample_weight\[2\]",
        r"a finite number from 0; a series of weight 0 is left out",
    ),
    "text for weights": Row(
        lambda _: fit().fit(X, Y, sample_weight=list("abcdef")),
        ea.InputError,
        r"could not convert",
        r"sample_weight",
        r"expected one number for each series",
    ),
    "no weight above 0": Row(
        lambda _: fit().fit(X, Y, sample_weight=[0, 0, 1, 0, 0, 0]),
        ea.InputError,
        r"1 of 6 weights are non-zero",
        r"sample_weight",
        r"at least 2",
    ),
    "a class weight of no class": Row(
        lambda _: fit(class_weight={"c": 2.0}),
        ea.ConfigError,
        r"the label 'c'",
        r"class_weight",
        r"expected labels of y: 'a', 'b'",
    ),
    "a class weight of text": Row(
        lambda _: fit(class_weight={"a": "x"}),
        ea.ConfigError,
        r"has 'x' for the label 'a'",
        r"TimeSeriesClassifier: class_weight",
        r"expected a number above 0",
    ),
    "an unknown way to weigh classes": Row(
        lambda _: fit(class_weight="auto"),
        ea.ConfigError,
        r"class_weight='auto'",
        r"TimeSeriesClassifier",
        r"'balanced', a dict such as \{'a': 2\.0\}",
    ),
    "class weights of values": Row(
        lambda _: ea.TimeSeriesRegressor(**TINY, class_weight="balanced").fit(
            X, np.arange(6.0)
        ),
        ea.ConfigError,
        r"class_weight='balanced'",
        r"TimeSeriesRegressor",
        r"no classes; use fit\(X, y, sample_weight\)",
    ),
    "another width for a warm start": Row(
        lambda _: fit(warm_start=True).set_params(hidden_size=16).fit(X, Y),
        ea.ConfigError,
        r"hidden_size is now 16, expected 8",
        r"TimeSeriesClassifier",
        r"set warm_start=False to fit from scratch",
    ),
    "other classes for a warm start": Row(
        lambda _: fit(warm_start=True).fit(X, np.array(["a", "c"] * 3)),
        ea.InputError,
        r"the classes a, c",
        r"y: ",
        r"expected a, b as in the fit that warm_start=True continues",
    ),
    "maps of a layer that is not": Row(
        lambda _: fit().attention_maps(X, layers=[0, 2]),
        ea.ConfigError,
        r"layers=\[0, 2\]",
        r"attention_maps",
        r"from 0 to 1; leave layers out",
    ),
    "maps of no whole number": Row(
        lambda _: fit().attention_maps(X, layers=0.5),
        ea.ConfigError,
        r"layers=0\.5",
        r"attention_maps",
        r"expected numbers from 0 to 1",
    ),
    "maps without attention": Row(
        lambda _: fit(attention_ratio=0.0).attention_maps(X),
        ea.ConfigError,
        r"attention_ratio=0",
        r"attention_maps",
        r"fit with attention_ratio above 0",
    ),
    "no width": Row(
        lambda _: fit(hidden_size=0),
        ea.ConfigError,
        r"hidden_size=0",
        r"TimeSeriesClassifier",
        r"a whole number from 1",
    ),
    "no heads": Row(
        lambda _: fit(num_attention_heads=0),
        ea.ConfigError,
        r"num_attention_heads=0",
        r"TimeSeriesClassifier",
        r"a whole number from 1; correct it, or leave it out",
    ),
    "NA among labels of pandas": Row(
        lambda _: fit(y=pd.Series(["a", "b", pd.NA, "a", "b", "a"], dtype="string")),
        ea.InputError,
        r"contains NaN",
        r"y\[2\] = <NA>",
        r"leave series without one out",
    ),
    "a loss that is not finite": Row(
        lambda _: fit(1e30 * X, learning_rate=1000.0, scale="none"),
        ea.NonFiniteError,
        r"the loss or a gradient is NaN or infinite",
        r"fit: in step",
        r"Lower learning_rate, or look for extreme values in X and y$",
    ),
    "a file as the folder of an estimator": Row(
        lambda folder: [
            (folder / "afile").write_text(""),
            fit().save(folder / "afile"),
        ],
        ea.CheckpointError,
        r"cannot write",
        r"afile",
        r"the estimator is not saved",
    ),
    "heads that do not divide the width": Row(
        lambda _: fit(hidden_size=48, num_attention_heads=8, attention_ratio=0.25),
        ea.ConfigError,
        r"num_attention_heads=8 for a width of 12",
        r"attention_ratio=0\.25 of hidden_size=48",
        r"1, 2, 3, 4, 6 or 12 heads would do, or attention_ratio=8/48 or "
        r"attention_ratio=16/48; or leave one",
    ),
    "a share that is no whole width": Row(
        lambda _: fit(hidden_size=18, attention_ratio=0.25),
        ea.ConfigError,
        r"a width of 4\.5",
        r"attention_ratio=0\.25 of hidden_size=18",
        r"attention_ratio=4/18 or attention_ratio=5/18 would do",
    ),
    "alpha with an attention": Row(
        lambda _: fit(attention=ea.attention.Evolving(0.1, 0.1), alpha=0.2),
        ea.ConfigError,
        r"attention=Evolving.* with alpha=0\.2",
        r"TimeSeriesClassifier",
        r"put alpha into the attention, or give attention by its name",
    ),
    "a typing mistake in an estimator's option": Row(
        lambda _: fit(hidden=32),
        ea.ConfigError,
        r"unknown option 'hidden'",
        r"TimeSeriesClassifier",
        r"did you mean 'hidden_size'",
    ),
    "alpha for vanilla attention": Row(
        lambda _: fit(attention="vanilla", alpha=0.2),
        ea.ConfigError,
        r"'?alpha'?",
        r"vanilla",
        r"the options are: none",
    ),
    "pooling twice": Row(
        lambda _: fit(pooling="mean", model_options={"pooling": "flatten"}),
        ea.ConfigError,
        r"pooling='mean' with model_options",
        r"'pooling'='flatten'",
        r"take 'pooling' out of model_options",
    ),
    "an unknown way with longer series": Row(
        lambda _: fit(longer="trim"),
        ea.ConfigError,
        r"longer='trim'",
        r"TimeSeriesClassifier",
        r"one of error, cut, resample",
    ),
    "a gap in a series to resample where gaps are refused": Row(
        lambda _: fit(missing="refuse", longer="resample", max_length=5).predict(
            np.where(np.arange(9) == 3, NAN, np.zeros((2, 2, 9)))
        ),
        ea.InputError,
        r"is NaN, expected a value",
        r"X\[0\]\[0, 3\]",
        r"missing='interpolate'",
    ),
    "a series without values before the cut": Row(
        lambda _: fit(longer="cut").predict(
            np.where(np.arange(9) < 6, NAN, np.zeros((2, 2, 9)))
        ),
        ea.InputError,
        r"every value of its first 5 time steps is NaN",
        r"X\[0\]",
        r"longer='resample'",
    ),
    "text for a random state": Row(
        lambda _: fit(random_state="now"),
        ea.ConfigError,
        r"random_state='now'",
        r"TimeSeriesClassifier",
        r"a whole number from 0, a numpy Generator",
    ),
}
