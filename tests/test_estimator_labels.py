"""Labels of estimators: other things in them, missing ones, tiny classes, records."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evolving_attention as ea

pytest.importorskip("aeon", reason="no aeon (extra timeseries)")

NAN = float("nan")
SERIES = np.random.default_rng(0).normal(size=(12, 1, 10))
EDGES = np.array([np.arange(12), np.roll(np.arange(12), 1)])


def fit_series(y: Any) -> Any:
    options: dict[str, Any] = {"hidden_size": 16, "num_blocks": 1, "n_epochs": 1}
    return ea.TimeSeriesClassifier(**options, random_state=0).fit(SERIES, y)


def fit_pictures(y: Any) -> Any:
    pictures = np.random.default_rng(0).integers(0, 255, (12, 8, 8), dtype=np.uint8)
    options: dict[str, Any] = {"hidden_size": 8, "num_hidden_layers": 1, "n_epochs": 1}
    return ea.ImageClassifier(**options, random_state=0).fit(pictures, y)


def fit_nodes(y: Any) -> Any:
    options: dict[str, Any] = {"hidden_size": 8, "num_heads": 2, "n_epochs": 1}
    model = ea.GraphNodeClassifier(**options, random_state=0)
    return model.fit(SERIES[:, 0], y, graph=EDGES)


def fit_values(y: Any) -> Any:
    options: dict[str, Any] = {"hidden_size": 16, "num_blocks": 1, "n_epochs": 1}
    return ea.TimeSeriesRegressor(**options, random_state=0).fit(SERIES, y)


FITS = pytest.mark.parametrize("fit", [fit_series, fit_pictures, fit_nodes])


@FITS
@pytest.mark.parametrize("kind", [list, tuple])
def test_a_missing_label_in_a_list_of_text_is_no_class(fit, kind) -> None:
    with pytest.raises(ea.InputError, match=r"y\[11\] = nan"):
        fit(kind([*["a", "b"] * 5, "a", NAN]))


@FITS
def test_a_missing_date_is_no_class(fit) -> None:
    days = np.array(["2020-01-01", "2021-01-01"] * 5 + ["2020-01-01", "NaT"], "M8[D]")
    with pytest.raises(ea.InputError, match=r"y\[11\] = NaT"):
        fit(days)


@FITS
def test_text_and_numbers_in_one_list_are_refused(fit) -> None:
    with pytest.raises(ea.DTypeError, match="all text or all whole numbers"):
        fit([*["a", "b"] * 5, "a", 3])


def test_a_missing_label_in_a_column_is_no_class() -> None:
    with pytest.warns(Warning, match="column"), pytest.raises(ea.InputError):
        fit_series([[one] for one in [*["a", "b"] * 5, "a", NAN]])


@FITS
def test_a_list_of_text_has_classes_of_text(fit) -> None:
    assert fit(["a", "bc"] * 6).classes_.dtype == np.dtype("<U2")
    assert fit([True, False] * 6).classes_.dtype == np.dtype(bool)


@FITS
def test_labels_with_half_of_a_surrogate_pair_are_saved(fit, tmp_path) -> None:
    fitted = fit(["a\ud83d", "b"] * 6)
    fitted.save(tmp_path)
    assert type(fitted).load(tmp_path).classes_.tolist() == ["a\ud83d", "b"]


UNFIT = {
    "a class twice": (fit_series, {"classes": ["a", "a"]}),
    "a class cut": (fit_pictures, {"classes": ["b", "bc"], "kind": "<U1"}),
    "a longer class": (fit_series, {"classes": ["ab", "bc"]}),
    "classes rounded": (fit_nodes, {"classes": [0.5, 1.5], "kind": "<i8"}),
    "classes in another order": (fit_nodes, {"classes": ["b", "a"]}),
    "other pictures": (fit_pictures, {"size": [16, 8]}),
    "names of more columns": (fit_nodes, {"features": [*"abcdefghijk"]}),
    "names of more channels": (fit_series, {"channel_names": ["a", "b"]}),
    "a mean that is none": (fit_values, {"target": ["nan", 1.0]}),
    "a deviation below 0": (fit_values, {"target": [0.0, -1.0]}),
    "a deviation without end": (fit_values, {"target": [0.0, "inf"]}),
    "a mean alone": (fit_values, {"target": [0.0]}),
}


@pytest.mark.parametrize("case", UNFIT)
def test_a_record_that_does_not_fit_its_model_is_refused(case, tmp_path) -> None:
    fit, change = UNFIT[case]
    fitted = fit([0.5, 2.0] * 6 if fit is fit_values else ["a", "b"] * 6)
    fitted.save(tmp_path)
    file = tmp_path / "estimator.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    what = rf"estimator\.json: {next(iter(change))} is .*, expected .*save the estima"
    with pytest.raises(ea.CheckpointError, match=what):
        type(fitted).load(tmp_path)


def test_a_regressor_of_one_value_loads(tmp_path) -> None:
    fitted = fit_values([2.0] * 12)
    fitted.save(tmp_path)
    loaded = ea.TimeSeriesRegressor.load(tmp_path)
    assert loaded.predict(SERIES).tolist() == [2.0] * 12


def test_labels_of_nodes_outside_the_masks_may_be_missing() -> None:
    model = ea.GraphNodeClassifier(
        hidden_size=8, num_heads=2, n_epochs=1, validation_fraction=0.0
    )
    y = [*["a", "b"] * 5, NAN, NAN]
    model.fit(SERIES[:, 0], y, graph=EDGES, train_mask=np.arange(10))
    assert model.classes_.tolist() == ["a", "b"]


HALF = [0, 1] * 5
PARTLY = {
    "floats": np.array([*HALF, NAN, NAN]),
    "objects": np.array([*HALF, None, None], object),
    "a list": [*HALF, None, None],
    "objects of booleans": np.array([*map(bool, HALF), None, None], object),
    "pandas' whole numbers": pd.array([*HALF, None, None], dtype="Int64"),
    "pandas' booleans": pd.array([*map(bool, HALF), None, None], dtype="boolean"),
    "a Series": pd.Series([*HALF, None, None], dtype="Int64"),
    "masked": np.ma.masked_array([*HALF, 7, 7], np.arange(12) > 9),
}


@pytest.mark.parametrize("form", PARTLY)
def test_missing_labels_outside_the_masks_are_not_read(form) -> None:
    y, known = PARTLY[form], np.arange(10)
    options: dict[str, Any] = {"hidden_size": 8, "num_heads": 2, "n_epochs": 1}
    model, plain = (
        ea.GraphNodeClassifier(**options, random_state=0).fit(
            SERIES[:, 0], given, graph=EDGES, train_mask=known
        )
        for given in (y, [*HALF, 0, 0])
    )
    assert model.classes_.tolist() == [0, 1]
    assert model.classes_.dtype.kind in "bif"
    X = SERIES[:, 0]
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    assert model.score(X, y, mask=known) == plain.score(X, [*HALF, 0, 0], mask=known)
    says = "y has masked values" if form == "masked" else r"y\[10\] = "
    for mask in (np.arange(11), None):
        with pytest.raises(ea.InputError, match=says):
            plain.fit(X, y, graph=EDGES, train_mask=mask)
        with pytest.raises(ea.InputError, match=says):
            model.score(X, y, mask=mask)


@FITS
def test_a_missing_label_of_pandas_is_named(fit) -> None:
    labels = pd.array([*HALF, 1, None], dtype="Int64")
    with pytest.raises(ea.InputError, match=r"y\[11\] = nan"):
        fit(labels)


@pytest.mark.parametrize(("level", "what"), [(0, "series"), (1, "time")])
def test_a_table_with_a_missing_index_is_refused(level, what) -> None:
    """Grouping drops such rows: X would have a series, or a time step, less."""
    levels: list[list[Any]] = [["a", "b", "c", "d"], [0, 1, 2, 3, 4]]
    levels[level][-1] = np.nan
    index = pd.MultiIndex.from_product(levels, names=["id", "time"])
    table = pd.DataFrame({"v": np.arange(20.0)}, index=index)
    row = 15 if level == 0 else 4
    with pytest.raises(ea.InputError, match=rf"X: row {row} .*expected a {what} in"):
        ea.TimeSeriesClassifier(n_epochs=1).fit(table, ["p", "q", "p", "q"])


@FITS
def test_classes_too_small_to_hold_a_row_out_are_told_of(fit) -> None:
    """The warning points to the line that calls fit; the fit trains on all rows."""
    with pytest.warns(UserWarning, match="share of the largest class, 2,") as seen:
        fit(np.repeat(np.arange(6), 2))
    (one,) = [w for w in seen if "validation_fraction" in str(w.message)]
    assert one.filename == __file__
    text = str(one.message)
    assert "holds out none of 12 " in text
    assert "The last epoch is kept, and patience has no effect" in text
    assert "raise validation_fraction, such as to 0.5" in text
    assert ("or pass a validation_mask" in text) == (fit is fit_nodes)


def test_too_few_series_to_hold_one_out_are_told_of() -> None:
    options: dict[str, Any] = {"hidden_size": 16, "num_blocks": 1, "n_epochs": 1}
    model = ea.TimeSeriesRegressor(**options, random_state=0)
    for use in (lambda: model.fit(SERIES[:2], [1.0, 2]), lambda: pretrain(model)):
        with pytest.warns(UserWarning, match="none of 2 series: the share rou") as seen:
            use()
        assert {one.filename for one in seen} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(validation_fraction=0).fit(SERIES[:2], [1.0, 2])
        model.set_params(validation_fraction=0.5).fit(SERIES[:2], [1.0, 2])


def pretrain(model: Any) -> Any:
    return ea.estimators.pretrain(model, SERIES[:2])
