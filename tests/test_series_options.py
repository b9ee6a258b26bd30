"""Options of the time-series estimators: lengths, attention, heads, random states."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from series_data import TINY, waves

import evolving_attention as ea

pytest.importorskip("aeon", reason="no aeon (extra timeseries)")

from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from evolving_attention.data.series_lengths import shortened
from evolving_attention.estimators.architecture import attention_width

QUICK = {**TINY, "n_epochs": 1}


# --- lengths --------------------------------------------------------------------------


def test_resampling_is_linear_between_known_values() -> None:
    series = np.array([[0.0, np.nan, 2, 3, 4], [np.nan] * 5])
    (found,) = shortened([series], 3, "resample", "interpolate")
    np.testing.assert_allclose(found[0], [0, 2, 4])
    assert np.isnan(found[1]).all()  # filled by the training mean, as if not resampled
    (cut,) = shortened([series], 3, "cut", "interpolate")
    np.testing.assert_array_equal(cut, series[:, :3])


@pytest.mark.parametrize("longer", ["cut", "resample"])
def test_longer_series_are_predicted(longer) -> None:
    X, y = waves()
    model = ea.TimeSeriesClassifier(**QUICK, max_length=15, longer=longer).fit(X, y)
    assert model.model_.config.max_length == 15
    expected = model.predict_proba(shortened(X, 15, longer, "interpolate"))
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    assert model.score(X, y) == np.mean(model.predict(X) == y)


@pytest.mark.parametrize("longer", ["cut", "resample"])
def test_cross_validation_over_unequal_lengths(longer) -> None:
    X, y = waves(30)
    X[0] = np.tile(X[0], 3)  # the longest series is in only one test fold
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = cross_val_score(
            ea.TimeSeriesClassifier(**QUICK, longer=longer), X, y, cv=3
        )
    assert np.isfinite(scores).all()


def test_missing_is_changed_after_a_fit(tmp_path) -> None:
    X, y = waves(20)
    gaps = [one.copy() for one in X]
    gaps[0][0, 3] = np.nan
    model = ea.TimeSeriesClassifier(**QUICK, warm_start=True).fit(X, y)
    filled = model.predict_proba(gaps)
    model.set_params(missing="refuse").save(tmp_path)
    for other in (model, ea.TimeSeriesClassifier.load(tmp_path)):
        for use in (other.predict, other.embed, lambda X, m=other: m.fit(X, y)):
            with pytest.raises(ea.InputError, match=r"X\[0\]\[0, 3\]"):
                use(gaps)
    refusing = ea.TimeSeriesClassifier(**QUICK, missing="refuse").fit(X, y)
    refusing.set_params(missing="interpolate", warm_start=True)
    np.testing.assert_array_equal(refusing.predict_proba(gaps), filled)
    refusing.fit(gaps, y)
    model.set_params(missing="interpolate").fit(gaps, y)
    odds = model.predict_proba(gaps)
    np.testing.assert_array_equal(refusing.predict_proba(gaps), odds)


def test_longer_series_in_pretraining(tmp_path) -> None:
    X, y = waves(20)
    model = ea.TimeSeriesClassifier(**QUICK, max_length=10, longer="cut")
    first, _ = ea.estimators.pretrain(model, X)
    first.save_pretrained(tmp_path)
    tuned = ea.TimeSeriesClassifier(**QUICK, pretrained=tmp_path, longer="cut")
    assert tuned.fit(X, y).model_.config.max_length == 10


# --- attention and convolution --------------------------------------------------------


def config_of(**options) -> ea.EADCTransformerConfig:
    settings = ea.TimeSeriesClassifier(**options).model_settings()
    return ea.EADCTransformerConfig(channels=2, max_length=9, **settings)


def test_options_of_attention_and_convolution() -> None:
    chosen = config_of(alpha=0.2, kernel_size=5)
    assert chosen.attention == ea.attention.Evolving(0.2, 0.3, kernel_size=5)
    assert config_of().attention == ea.attention.Evolving(0.5, 0.3)
    assert config_of(attention="evolving", beta=np.float32(0.5)).attention.beta == 0.5
    other = config_of(attention="predictive", alpha=0.4).attention
    assert other == ea.attention.Predictive(alpha=0.4)
    conv = config_of(
        conv_kernel_size=np.int64(5), causal=False, norm="layer", pooling="mean"
    )
    assert (conv.kernel_size, conv.causal) == (5, False)
    assert (conv.norm, conv.pooling) == ("layer", "mean")


@pytest.mark.parametrize(
    ("own", "name", "value"),
    [
        ("attention", "attention", "vanilla"),
        ("hidden_size", "hidden_size", 16),
        ("num_blocks", "num_blocks", 1),
        ("num_attention_heads", "num_attention_heads", 2),
        ("attention_ratio", "attention_ratio", 0.5),
        ("dropout", "hidden_dropout_prob", 0.5),
    ],
)
def test_an_option_in_model_options_too_is_refused(own, name, value) -> None:
    X, y = waves(12)
    model = ea.TimeSeriesClassifier(**{**QUICK, "model_options": {name: value}})
    with pytest.raises(
        ea.ConfigError,
        match=rf"TimeSeriesClassifier: model_options has '{name}'=.*give {own}=",
    ):
        model.fit(X, y)


def test_grids_search_every_option() -> None:
    grid = [
        {"alpha": np.linspace(0.1, 0.9, 2), "kernel_size": np.arange(1, 4, 2)},
        {"hidden_size": [16, 48], "num_attention_heads": [None]},
        {"pooling": ["flatten", "mean"], "norm": ["batch", "layer"]},
        {"causal": [False], "beta": [0.1], "longer": ["cut"]},
    ]
    X, y = waves(12, lengths=(12, 13))
    found = GridSearchCV(ea.TimeSeriesClassifier(**QUICK), grid, cv=2).fit(
        np.stack(X), y
    )
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()
    model = clone(ea.TimeSeriesClassifier(alpha=0.2, pooling="mean"))
    assert model.get_params()["alpha"] == 0.2
    assert model.set_params(norm="layer").get_params()["norm"] == "layer"


@pytest.mark.parametrize("hidden", [1, 2, 8, 16, 18, 20, 24, 32, 44, 48, 64, 100, 128])
def test_heads_fit_every_width(hidden) -> None:
    heads, ratio = attention_width(hidden, None, None, "")
    config = config_of(hidden_size=hidden, num_blocks=1)
    ea.EADCTransformerForClassification(config)
    assert (config.num_attention_heads, config.attention_ratio) == (heads, ratio)
    if hidden % 32 == 0:  # the defaults before heads were fitted to the width
        assert (heads, ratio) == (8, 0.25)


def test_one_of_heads_and_ratio_given() -> None:
    assert attention_width(48, 8, None, "") == (8, 16 / 48)
    assert attention_width(48, None, 0.25, "") == (6, 0.25)
    assert attention_width(64, None, 0.0, "") == (8, 0.0)
    assert attention_width(20, None, 0.0, "") == (5, 0.0)
    assert attention_width(64, 16, None, "") == (16, 0.25)


def test_kept_heads_come_from_the_pretraining(tmp_path) -> None:
    X, y = waves(20)
    options = {**QUICK, "num_attention_heads": 1, "max_length": 20}
    first, _ = ea.estimators.pretrain(ea.TimeSeriesClassifier(**options), X)
    first.save_pretrained(tmp_path)
    tuned = ea.TimeSeriesClassifier(
        **{**QUICK, "num_attention_heads": None}, pretrained=tmp_path
    )
    assert tuned.fit(X, y).model_.config.num_attention_heads == 1


# --- random states and tables ---------------------------------------------------------


def test_a_generator_is_a_random_state(tmp_path) -> None:
    X, y = waves(20)
    fits = [
        ea.TimeSeriesClassifier(**{**QUICK, "random_state": np.random.default_rng(3)})
        for _ in range(2)
    ]
    odds = [model.fit(X, y).predict_proba(X) for model in fits]
    np.testing.assert_array_equal(*odds)
    again = fits[0].fit(X, y).predict_proba(X)  # the random generator has advanced
    assert not np.array_equal(again, odds[0])
    assert fits[0].fit_predict(X, y, cv_size=2).shape == (20,)
    fits[0].save(tmp_path)
    assert ea.TimeSeriesClassifier.load(tmp_path).random_state is None


def test_a_table_with_a_column_called_value() -> None:
    X, y = waves(8, lengths=(12, 13))
    rows = [(i, t, *one[:, t]) for i, one in enumerate(X) for t in range(12)]
    table = pd.DataFrame(rows, columns=["id", "time", "value", "variable"])
    table = table.set_index(["id", "time"])
    model = ea.TimeSeriesClassifier(**QUICK).fit(table, y)
    expected = ea.TimeSeriesClassifier(**QUICK).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(model.predict_proba(table), expected)
    assert model.score(table, y) == model.score(X, y)


def test_the_pretraining_determines_the_attention(tmp_path) -> None:
    X, y = waves(8)
    kinds = ea.attention

    def fitted(**options) -> ea.TimeSeriesClassifier:
        return ea.TimeSeriesClassifier(**QUICK, pretrained=tmp_path, **options)

    for held, kept in (
        (kinds.Predictive(0.9), kinds.Predictive(0.9)),
        (kinds.Vanilla(), kinds.Evolving(0.5, 0.3)),
    ):
        first = ea.TimeSeriesClassifier(**QUICK, attention=held)
        ea.estimators.pretrain(first, X)[0].save_pretrained(tmp_path)
        model = fitted(warm_start=True).fit(X, y)
        assert model.model_.config.attention == kept
        model.fit(X, y)
        with pytest.raises(ea.ConfigError, match="attention is now"):
            model.set_params(alpha=0.2).fit(X, y)
    found = fitted(alpha=0.2).fit(X, y).model_.config.attention
    assert found == kinds.Evolving(0.2, 0.3)
