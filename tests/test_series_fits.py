"""Fits of time-series estimators: warm starts, weights and channel names."""

from __future__ import annotations

import dataclasses
import json
import signal

import numpy as np
import pandas as pd
import pytest
from series_data import TINY, levels, signal_sender, waves

import evolving_attention as ea

pytest.importorskip("aeon", reason="no aeon (extra timeseries)")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from evolving_attention import functional as F
from evolving_attention.data.series_scaling import SeriesScaler
from evolving_attention.estimators import weights

QUICK = {**TINY, "n_epochs": 3}


# --- fits that continue ---------------------------------------------------------------


def test_a_warm_start_goes_on() -> None:
    X, y = waves()
    model = ea.TimeSeriesClassifier(**QUICK, warm_start=True).fit(X, y)
    first, before = list(model.history_), model.model_
    scaler = model.scaler_
    model.set_params(n_epochs=4).fit(X, y)
    assert model.model_ is before
    assert model.scaler_ is scaler
    assert model.history_[:3] == first
    assert [row["epoch"] for row in model.history_] == list(range(1, 8))
    assert model.history_[3]["loss"] < first[0]["loss"]
    keys = [
        (-row["validation_accuracy"], row["validation_loss"]) for row in model.history_
    ]
    assert model.best_epoch_ == 1 + keys.index(min(keys))
    cold = clone(model).set_params(warm_start=False, n_epochs=3)
    assert cold.fit(X, y).fit(X, y).history_ == first


@pytest.mark.parametrize("seed", range(4))
def test_a_first_fit_has_nothing_to_go_on_from(seed) -> None:
    """The untrained weights are no epoch, so they are never kept."""
    X, y = waves()
    options = {**QUICK, "n_epochs": 2, "random_state": seed, "learning_rate": 0.5}
    plain, warm = (
        ea.TimeSeriesClassifier(**options, warm_start=one).fit(X, y)
        for one in (False, True)
    )
    np.testing.assert_array_equal(warm.predict_proba(X), plain.predict_proba(X))
    assert warm.history_ == plain.history_
    assert warm.best_epoch_ == plain.best_epoch_ >= 1


def test_a_warm_start_never_gets_worse_on_the_validation_part() -> None:
    X, y = waves()
    model = ea.TimeSeriesClassifier(**{**TINY, "warm_start": True}).fit(X, y)
    odds, best = model.predict_proba(X), model.best_epoch_
    model.set_params(learning_rate=0.9, n_epochs=1).fit(X, y)  # would ruin the weights
    np.testing.assert_array_equal(model.predict_proba(X), odds)
    assert (model.best_epoch_, len(model.history_)) == (best, 13)


def test_a_warm_start_without_validation_keeps_the_last_weights(tmp_path) -> None:
    options = {**QUICK, "validation_fraction": 0.0, "warm_start": True}
    X, y = levels()
    model = ea.TimeSeriesRegressor(**options).fit(X, y)
    mean = model.target_mean_
    model.save(tmp_path)
    again = ea.TimeSeriesRegressor.load(tmp_path)
    for one in (model, again):
        one.set_params(n_epochs=9).fit(X[:50], y[:50])
        assert (one.target_mean_, one.best_epoch_) == (mean, 12)
        assert one.history_[-1]["loss"] < 0.5 * one.history_[0]["loss"]
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"hidden_size": 32}, ea.ConfigError, "hidden_size is now 32, expected 16"),
        ({"alpha": 0.1}, ea.ConfigError, "attention is now .*alpha=0.1"),
        ({"scale": "none"}, ea.ConfigError, "scale is now 'none', expected 'channel'"),
        ({"X": 1}, ea.ShapeError, "1 channels, expected 2 as in the fit"),
        ({"y": "other"}, ea.InputError, "the classes fast, other, expected fast, slow"),
    ],
)
def test_a_refused_warm_start_keeps_the_earlier_fit(change, error, said) -> None:
    X, y = waves()
    model = ea.TimeSeriesClassifier(**QUICK, warm_start=True).fit(X, y)
    before = model.predict_proba(X)
    if "X" in change:
        given = [one[:1] for one in X], y
    elif "y" in change:
        given = X, np.where(y == "slow", "other", y)
    else:
        given = X, y
        model.set_params(**change)
    with pytest.raises(error, match=said) as told:
        model.fit(*given)
    assert "warm_start=False" in str(told.value)
    np.testing.assert_array_equal(model.predict_proba(X), before)
    assert model.classes_.tolist() == ["fast", "slow"]


@pytest.fixture
def send(monkeypatch):
    return signal_sender(monkeypatch)


@pytest.mark.parametrize("fraction", [0.0, 0.3])
def test_ctrl_c_in_the_first_epoch_of_a_warm_start(send, fraction) -> None:
    X, y = waves()
    options = {**QUICK, "validation_fraction": fraction, "warm_start": True}
    model = ea.TimeSeriesClassifier(**options).fit(X, y)
    odds = model.predict_proba(X)
    send(signal.SIGINT, epoch=1)
    with pytest.warns(UserWarning, match="SIGINT after 0 of 3 .* before this fit, st"):
        model.fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), odds)
    assert (len(model.history_), model.interrupted_) == (3, "SIGINT")
    send(signal.SIGINT, signal.SIGINT, epoch=1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), odds)


def test_ctrl_c_then_a_warm_start(send) -> None:
    X, y = waves()
    model = ea.TimeSeriesClassifier(**QUICK, warm_start=True)
    send(signal.SIGINT, epoch=3)
    with pytest.warns(UserWarning, match="warm_start=True to go on") as told:
        model.fit(X, y)
    assert told[0].filename == __file__  # the line that calls fit
    send()
    model.fit(X, y)
    assert (len(model.history_), model.interrupted_) == (5, None)


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("ends", ["Ctrl-C", "infinite"])
def test_a_failed_first_fit_leaves_nothing_to_go_on_from(send, warm, ends) -> None:
    X, y = waves()
    model = ea.TimeSeriesClassifier(**QUICK, scale="none", warm_start=warm)
    if ends == "Ctrl-C":
        send(signal.SIGINT, epoch=1)
        with pytest.raises(KeyboardInterrupt, match="the model is not fitted"):
            model.fit(X, y)
        send()
    else:
        with pytest.raises(ea.NonFiniteError):
            model.fit([one * 1e36 for one in X], y)
    assert not model.is_fitted
    assert not hasattr(model, "model_")
    with pytest.raises(NotFittedError):
        model.predict(X)
    found = model.set_params(warm_start=True).fit(X, y).predict_proba(X)
    whole = ea.TimeSeriesClassifier(**QUICK, scale="none").fit(X, y)
    np.testing.assert_array_equal(found, whole.predict_proba(X))


# --- weights --------------------------------------------------------------------------


def test_the_loss_of_a_batch_is_the_weighted_one() -> None:
    rng = np.random.default_rng(0)
    logits = ea.Tensor((30 * rng.normal(size=(5, 3))).astype(np.float32))
    logits.requires_grad = True
    labels, w = np.array([0, 1, 2, 1, 0]), rng.uniform(size=5)

    class Model:
        def __call__(self, labels=None):
            return ea.modeling.outputs.ModelOutput(logits=logits)

    loss = weights.WeightedModel(Model())(row_weights=w, labels=labels).loss
    loss.backward()
    x = logits.numpy().astype(np.float64)
    p = np.exp(x - x.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    expected = -w * np.log(p[np.arange(5), labels])
    assert loss.item() == pytest.approx(expected.mean(), rel=1e-6)
    gradient = w[:, None] * (p - np.eye(3)[labels]) / 5
    np.testing.assert_allclose(logits.grad.numpy(), gradient, rtol=1e-5, atol=1e-9)
    parts = [F.cross_entropy(logits[i : i + 1], labels[i : i + 1]) for i in range(5)]
    each = [float(part.item()) for part in parts]
    assert loss.item() == pytest.approx(np.mean(w * each), rel=1e-6)
    values = rng.normal(size=5).astype(np.float32)
    out = weights.WeightedModel(Model())(row_weights=w, labels=values[:, None])
    squares = ((x - values[:, None]) ** 2).mean(axis=1)
    assert out.loss.item() == pytest.approx((w * squares).mean(), rel=1e-6)


def test_weights_keep_their_ratios_alone() -> None:
    X, y = waves(20)
    rows = SeriesScaler().fit(X).transform(X, np.arange(20))
    found = weights.WeightedRows(rows, np.arange(1, 21) * 7.0)
    assert found.weights.mean() == pytest.approx(1)
    batch = found.gather([3, 0])
    np.testing.assert_allclose(batch["row_weights"], np.array([4, 1]) / 10.5)
    model = ea.TimeSeriesClassifier(**QUICK)
    w = np.random.default_rng(0).uniform(0.1, 1, size=20)
    odds = [clone(model).fit(X, y, w * k).predict_proba(X) for k in (1, 4)]
    np.testing.assert_array_equal(*odds)
    plain = clone(model).fit(X, y)
    assert not np.array_equal(plain.predict_proba(X), odds[0])
    equal = clone(model).fit(X, y, sample_weight=np.full(20, 3.0))
    np.testing.assert_array_equal(equal.predict_proba(X), plain.predict_proba(X))


def test_a_weight_of_zero_leaves_a_series_out() -> None:
    X, y = waves(40, lengths=(12, 13))
    w = np.random.default_rng(0).integers(0, 3, size=40).astype(float)
    kept = np.flatnonzero(w)
    model = ea.TimeSeriesClassifier(**QUICK)
    some = clone(model).fit([X[i] for i in kept], y[kept], w[kept])
    found = clone(model).fit(X, y, sample_weight=w).predict_proba(X)
    np.testing.assert_array_equal(found, some.predict_proba(X))


def test_weights_move_what_is_learnt() -> None:
    """With contradictory labels, the class with more weight is learnt."""
    X, y = waves(40, lengths=(12, 13))
    both = [*X, *X]
    labels = np.concatenate([y, np.where(y == "slow", "fast", "slow")])
    options = {**TINY, "n_epochs": 30, "validation_fraction": 0.3}
    for heavy in (0, 1):
        w = np.where((np.arange(80) < 40) == (heavy == 0), 1.0, 0.05)
        model = ea.TimeSeriesClassifier(**options).fit(both, labels, sample_weight=w)
        accuracy = np.mean(model.predict(X) == y)
        assert accuracy > 0.8 if heavy == 0 else accuracy < 0.2
        assert max(row["validation_accuracy"] for row in model.history_) > 0.7


def test_balanced_classes_weigh_the_same() -> None:
    classes = np.array(["a", "b"])
    numbers = np.array([0] * 6 + [1] * 2)
    found = weights.class_weights("balanced", numbers, classes)
    np.testing.assert_allclose(found, [8 / 12] * 6 + [2.0] * 2)
    found = weights.class_weights({"b": 3}, numbers, classes)
    np.testing.assert_allclose(found, [1.0] * 6 + [3.0] * 2)
    assert weights.class_weights("balanced", numbers[5:7], classes) is None
    X, y = waves(40)
    y[:30] = "slow"  # "fast" becomes rare
    balanced = ea.TimeSeriesClassifier(**QUICK, class_weight="balanced").fit(X, y)
    w = np.where(y == "slow", 0.5 / (y == "slow").mean(), 0.5 / (y == "fast").mean())
    other = ea.TimeSeriesClassifier(**QUICK).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(
        balanced.predict_proba(X), other.predict_proba(X), rtol=1e-4, atol=1e-6
    )
    numbered = ea.TimeSeriesClassifier(**QUICK, class_weight={0: 2.0})
    numbered.fit(X, (y == "slow").astype(int))


@pytest.mark.parametrize("labels", [[0, 1], [False, True], ["0", "1"]], ids=str)
@pytest.mark.parametrize("earlier", [False, True], ids=["now", "earlier"])
def test_class_weights_keep_their_labels_in_a_folder(labels, earlier, tmp_path) -> None:
    X, _ = waves(20)
    y = np.array(labels)[np.arange(20) % 2]
    given = dict(zip(np.array(labels), [1.0, 3.0], strict=True))
    model = ea.TimeSeriesClassifier(**QUICK, class_weight=given).fit(X, y)
    model.save(tmp_path)
    if earlier:  # what earlier versions wrote: labels as text
        file = tmp_path / "estimator.json"
        record = json.loads(file.read_text())
        pairs = record["options"]["class_weight"]
        record["options"]["class_weight"] = {str(label): w for label, w in pairs}
        file.write_text(json.dumps(record))
    loaded = ea.TimeSeriesClassifier.load(tmp_path)
    assert repr(loaded.class_weight) == repr(dict(zip(labels, [1.0, 3.0], strict=True)))
    np.testing.assert_array_equal(
        loaded.fit(X, y).predict_proba(X), model.predict_proba(X)
    )


def test_weights_of_a_regression() -> None:
    X, y = levels()
    both, targets = np.concatenate([X, X]), np.concatenate([y, y + 20])
    w = np.where(np.arange(120) < 60, 1.0, 0.01)
    model = ea.TimeSeriesRegressor(**{**TINY, "n_epochs": 30})
    model.fit(both, targets, sample_weight=w)
    assert np.mean(model.predict(X) - y) < 5


def test_a_weighted_fit_names_what_is_not_finite() -> None:
    X, y = waves()
    model = ea.TimeSeriesClassifier(**QUICK, scale="none")
    w = np.arange(1.0, len(X) + 1)
    with pytest.raises(ea.NonFiniteError, match=r"activation hidden_states\[1\]"):
        model.fit([one * 1e36 for one in X], y, sample_weight=w)


def test_weights_of_a_score() -> None:
    X, y = waves()
    model = ea.TimeSeriesClassifier(**{**TINY, "n_epochs": 1}).fit(X, y)
    weight = np.where(model.predict(X) == y, 3.0, 1.0) * np.linspace(0, 1, len(y))
    expected = np.average(model.predict(X) == y, weights=weight)
    assert model.score(X, y, sample_weight=weight) == pytest.approx(expected)
    assert model.score(X, y) != pytest.approx(expected)
    assert model.score(X, y, sample_weight=np.ones(len(y))) == model.score(X, y)
    assert model.score(X[:1], model.predict(X[:1]), sample_weight=[2]) == 1.0
    odds = {"metric": "neg_log_loss", "use_proba": True}
    plain = {**odds, "metric_params": {"labels": ["fast", "slow"]}}
    both = model.score(X, y, **plain, sample_weight=weight)
    assert both != pytest.approx(model.score(X, y, **plain))
    with pytest.raises(ea.ShapeError, match=r"sample_weight: shape \(2,\) for 48"):
        model.score(X, y, sample_weight=[1, 2])
    X, y = levels()
    model = ea.TimeSeriesRegressor(**{**TINY, "n_epochs": 2}).fit(X, y)
    weight = np.linspace(0, 1, len(y))
    error = np.average((y - model.predict(X)) ** 2, weights=weight)
    spread = np.average((y - np.average(y, weights=weight)) ** 2, weights=weight)
    found = model.score(X, y, sample_weight=weight)
    assert found == pytest.approx(1 - error / spread)


# --- targets --------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["long", "wide", "part"])
def test_targets_of_the_same_series_in_another_order_are_refused(form) -> None:
    """The order of text puts s10 before s2; y belongs to the series by position."""
    pandas = pytest.importorskip("pandas")
    values = np.random.default_rng(0).normal(size=(12, 6))
    names = [f"s{i}" for i in range(12)]
    wide = pandas.DataFrame(values, index=sorted(names), columns=range(6))
    long = wide.stack().rename_axis(["id", "time"]).to_frame("v")
    ids = tuple(wide.index)
    part = ea.timeseries.SeriesPart(values[:, None], None, False, "f", ids)
    X = {"long": long, "wide": wide, "part": part}[form]
    y = pandas.Series([0.0, 1.0] * 6, index=names)
    model = ea.TimeSeriesRegressor(**{**TINY, "n_epochs": 1})
    found = r"y\[2\] belongs to 's2', expected 's10'.*sort"
    with pytest.raises(ea.InputError, match=found):
        model.fit(X, y)
    right = y.loc[list(ids)]
    with pytest.raises(ea.InputError, match=r"sample_weight\[2\] belongs to 's2'"):
        model.fit(X, right, sample_weight=y + 1)
    model.fit(X, right, sample_weight=right + 1)
    with pytest.raises(ea.InputError, match=r"y\[2\] belongs to 's2', expected 's10'"):
        model.score(X, y)
    with pytest.raises(ea.InputError, match=r"sample_weight\[2\] belongs to 's2'"):
        model.score(X, right, sample_weight=y + 1)
    assert model.score(X, right) == model.score(
        X, y.to_numpy()[[*map(names.index, ids)]]
    )
    model.fit(X, y.reset_index(drop=True))  # other labels say nothing


@pytest.mark.parametrize("value", [1e-3, 0.1, -7.0, 0.0])
def test_a_constant_target_is_predicted(value, tmp_path) -> None:
    X, y = levels(12)
    options = {**TINY, "n_epochs": 1, "warm_start": True}
    model = ea.TimeSeriesRegressor(**options).fit(X, np.full(12, value))
    np.testing.assert_allclose(model.predict(X), value, rtol=1e-12, atol=0)
    model.save(tmp_path)
    loaded = ea.TimeSeriesRegressor.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    loaded.fit(X, y)  # a continued fit that has values to tell apart
    assert loaded.target_mean_ == pytest.approx(20, abs=5)
    assert np.ptp(loaded.predict(X)) > 0


def test_a_target_with_a_small_deviation_is_no_constant() -> None:
    X, y = levels(12)
    model = ea.TimeSeriesRegressor(**{**TINY, "n_epochs": 1})
    found = model.fit(X, 1e-3 + 1e-12 * y).predict(X)
    assert 0 < np.ptp(found) < 1e-9


# --- names of channels ----------------------------------------------------------------


def frames(*columns: str) -> tuple[list[pd.DataFrame], np.ndarray]:
    X, y = waves(12)
    return [pd.DataFrame(dict(zip("ab", one, strict=True)))[[*columns]] for one in X], y


@pytest.mark.parametrize("long", [False, True])
def test_channels_in_another_order_are_refused_after_the_fit(tmp_path, long) -> None:
    def given(*columns: str) -> object:
        X, _ = frames(*columns)
        return pd.concat(X, keys=range(12), names=["id", "time"]) if long else X

    y = frames("a", "b")[1]
    model = ea.TimeSeriesClassifier(**QUICK, warm_start=True).fit(given("a", "b"), y)
    assert model.channel_names_ == ("a", "b")
    model.save(tmp_path)
    odds = model.predict_proba(given("a", "b"))
    for one in (model, ea.TimeSeriesClassifier.load(tmp_path)):
        assert one.channel_names_ == ("a", "b")
        for name, more in (("predict", ()), ("embed", ()), ("score", (y,))):
            with pytest.raises(ea.InputError, match="channels b, a, expected a, b as"):
                getattr(one, name)(given("b", "a"), *more)
        with pytest.raises(ea.InputError, match="order them alike"):
            one.set_params(warm_start=True).fit(given("b", "a"), y)
        assert np.array_equal(one.predict_proba(given("a", "b")), odds)
        assert np.array_equal(one.predict_proba(waves(12)[0]), odds)  # no channel names


def test_frames_of_one_list_have_one_order() -> None:
    X, y = frames("a", "b")
    X[3] = X[3][["b", "a"]]
    with pytest.raises(
        ea.InputError, match=r"X\[3\]: the channels b, a, expected a, b"
    ):
        ea.TimeSeriesClassifier(**QUICK).fit(X, y)


def test_a_folder_of_before_the_names_loads(tmp_path) -> None:
    X, y = frames("a", "b")
    ea.TimeSeriesClassifier(**QUICK).fit(X, y).save(tmp_path)
    file = tmp_path / "estimator.json"
    record = json.loads(file.read_text())
    del record["channel_names"]
    file.write_text(json.dumps(record))
    loaded = ea.TimeSeriesClassifier.load(tmp_path)
    assert loaded.predict(frames("b", "a")[0]).shape == (12,)


def test_a_part_of_a_table_keeps_its_names() -> None:
    X, y = waves(12)
    part = ea.timeseries.SeriesPart(X, y, False, "own.csv", None, ("a", "b"))
    model = ea.TimeSeriesClassifier(**QUICK).fit(part, y)
    other = dataclasses.replace(part, channel_names=("a", "c"))
    with pytest.raises(
        ea.InputError, match="the channels a, c, expected a, b as in tr"
    ):
        model.predict(other)


def test_masked_targets_and_weights_are_refused() -> None:
    X, y = rows_of_table()
    masked = np.ma.masked_array(y, mask=np.arange(12) == 3)
    for given, more in ((masked, {}), (y, {"sample_weight": masked + 1})):
        with pytest.raises(ea.InputError, match="has masked values, expected a value"):
            ea.TimeSeriesClassifier(**QUICK).fit(X, given, **more)


def rows_of_table() -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(0).normal(size=(12, 12)), np.arange(12) % 2


def test_columns_of_another_order_or_name_are_refused_after_the_fit(tmp_path) -> None:
    X, y = rows_of_table()
    table = pd.DataFrame(X[:, :10], columns=[*"abcdefghij"])
    model = ea.TimeSeriesClassifier(**QUICK, warm_start=True).fit(table, y)
    model.save(tmp_path)
    odds = model.predict_proba(table)
    for one in (model, ea.TimeSeriesClassifier.load(tmp_path)):
        assert one.feature_names_in_.tolist() == [*"abcdefghij"]
        for name, more in (("predict", ()), ("embed", ()), ("score", (y,))):
            with pytest.raises(ea.InputError, match="step 0 is the column 'j', expec"):
                getattr(one, name)(table[table.columns[::-1]], *more)
        with pytest.raises(ea.InputError, match="column 'A', expected 'a' as in train"):
            one.predict(table.rename(columns=str.upper))
        with pytest.raises(ea.InputError, match="step 0 is the column 'b', expected"):
            one.fit(table[[*"bacdefghij"]], y)
        assert np.array_equal(one.predict_proba(table), odds)
        assert np.array_equal(one.predict_proba(table.to_numpy()), odds)  # no names
        one.predict(table[[*"abcdefgh"]])  # shorter series
        with pytest.raises(ea.InputError, match="step 0 is the column 'c', expected"):
            one.predict(table[[*"cdefghij"]])
    model.fit(table[[*"abcdefgh"]], y)  # goes on with shorter series
    assert model.feature_names_in_.tolist() == [*"abcdefghij"]
    assert not hasattr(
        model.set_params(warm_start=False).fit(X, y), "feature_names_in_"
    )


def test_resampled_tables_of_another_length_have_other_names() -> None:
    X, y = rows_of_table()
    table = pd.DataFrame(X[:, :10], columns=[*"abcdefghij"])
    model = ea.TimeSeriesClassifier(**QUICK, longer="resample").fit(table, y)
    finer = pd.DataFrame(X, columns=[*"aAbcdefghijJ"])
    assert model.predict(finer).shape == (12,)
    with pytest.raises(ea.InputError, match="step 0 is the column 'j'"):
        model.predict(table[table.columns[::-1]])


def test_files_with_columns_in_another_order_are_refused(tmp_path) -> None:
    table = pd.DataFrame(rows_of_table()[0][:, :3], columns=[*"abc"])
    for name, columns in (("a.csv", "abc"), ("b.csv", "cba")):
        table[[*columns]].assign(label=[0, 1] * 6).to_csv(tmp_path / name, index=False)
    train, test = (ea.timeseries.read_csv(tmp_path / f"{one}.csv") for one in "ab")
    assert train.step_names == ("a", "b", "c")
    model = ea.TimeSeriesClassifier(**QUICK).fit(train, train.y)
    with pytest.raises(ea.InputError, match="X: time step 0 is the column 'c', exp"):
        model.predict(test)
    with pytest.raises(ea.InputError, match=r"b.csv: time step 0 .* 'a' as in .*a.csv"):
        ea.timeseries.check_parts(train, test)
