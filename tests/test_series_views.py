"""Attention maps and representations of fitted time-series estimators."""

from __future__ import annotations

import numpy as np
import pytest
from series_data import TINY, levels, waves

import evolving_attention as ea

pytest.importorskip("aeon", reason="no aeon (extra timeseries)")


@pytest.fixture(scope="module")
def fitted() -> ea.TimeSeriesClassifier:
    options = {**TINY, "n_epochs": 1, "num_blocks": 2}
    return ea.TimeSeriesClassifier(**options, max_length=20).fit(*waves())


def direct(model, series, **wanted):
    """Returns the model's own output for one series [channels, length]."""
    values = model.scaler_.transform([series]).values
    return model.model_(values[None], **wanted)


def test_attention_maps_are_those_of_the_model(fitted) -> None:
    X, _ = waves(7, seed=1)
    maps = fitted.attention_maps(X)
    assert len(maps) == 7
    for one, found in zip(X, maps, strict=True):
        n = one.shape[1]
        assert found.shape == (4, 2, n, n)  # layers, heads
        assert found.dtype == np.float32
        np.testing.assert_allclose(found.sum(axis=-1), 1, rtol=1e-5)
        out = direct(fitted, one, output_attentions=True)
        for layer, expected in zip(found, out.attentions, strict=True):
            np.testing.assert_allclose(layer, expected.numpy()[0], atol=1e-6)
    some = fitted.attention_maps(X, layers=[3, 1])
    for one, every in zip(some, maps, strict=True):
        np.testing.assert_array_equal(one, every[[3, 1]])


def test_maps_go_into_the_plot(fitted) -> None:
    pytest.importorskip("matplotlib")
    X, _ = waves(1, seed=1)
    maps = fitted.attention_maps(X)[0]
    figure = ea.plots.attention_evolution(maps, range(maps.shape[-1]), series=X[0].T)
    assert len([axes for axes in figure.axes if axes.images]) >= 4
    ea.plots.training_curves(fitted.history_)


def test_representations(fitted) -> None:
    X, _ = waves(7, seed=1)
    steps = fitted.embed(X, steps=True)
    means = fitted.embed(X)
    assert means.shape == (7, 16)
    assert means.dtype == np.float32
    for one, found, mean in zip(X, steps, means, strict=True):
        assert found.shape == (16, one.shape[1])  # [channels, length], as X
        out = direct(fitted, one, output_hidden_states=[4])
        expected = out.hidden_states[4].numpy()[0].T
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-6)
        np.testing.assert_allclose(mean, found.mean(axis=1), rtol=1e-4, atol=1e-6)
    from sklearn.linear_model import LogisticRegression

    y = np.arange(7) % 2
    assert LogisticRegression().fit(means, y).predict(means).shape == (7,)


def test_views_read_what_predict_reads() -> None:
    X, y = levels(12)
    model = ea.TimeSeriesRegressor(**{**TINY, "n_epochs": 1}, longer="cut").fit(X, y)
    long = np.concatenate([X, X], axis=2)
    assert {maps.shape[-1] for maps in model.attention_maps(long)} == {10}
    np.testing.assert_array_equal(model.embed(long), model.embed(X))
    np.testing.assert_array_equal(model.embed(X[:, 0]), model.embed(X))
    for view in ("embed", "attention_maps"):
        with pytest.raises(Exception, match="not been fitted"):
            getattr(ea.TimeSeriesClassifier(), view)(X)
        with pytest.raises(ea.ShapeError, match="2 channels, expected 1"):
            getattr(model, view)(np.concatenate([X, X], axis=1))


def test_maps_of_one_layer_by_its_number() -> None:
    X, y = waves(6)
    model = ea.TimeSeriesClassifier(**{**TINY, "n_epochs": 1}).fit(X, y)
    for one, same in zip(
        model.attention_maps(X, layers=1),
        model.attention_maps(X, layers=[1]),
        strict=True,
    ):
        assert np.array_equal(one, same)


def test_views_of_a_model_in_training_mode_are_those_of_evaluation() -> None:
    X, y = waves(6)
    model = ea.TimeSeriesClassifier(**{**TINY, "n_epochs": 1}).fit(X, y)
    features, maps, odds = (
        model.embed(X),
        model.attention_maps(X),
        model.predict_proba(X),
    )
    model.model_.train()
    assert np.array_equal(model.embed(X), features)
    for one, same in zip(model.attention_maps(X), maps, strict=True):
        assert np.array_equal(one, same)
    assert model.model_.training
    assert np.array_equal(model.predict_proba(X), odds)  # batch norm is as before
