"""Fits short of memory: automatic recomputation, or an error before the first step."""

from __future__ import annotations

import contextlib
import dataclasses

import numpy as np
import pytest

pytest.importorskip("aeon", reason="no aeon (extra timeseries)")

import helpers_series
from series_data import TINY, waves

import evolving_attention as ea
from evolving_attention import _core
from evolving_attention.estimators import headroom

MIB = 1 << 20
QUICK = {**TINY, "n_epochs": 1, "attention": ea.attention.Vanilla(), "num_blocks": 4}
QUICK |= {"validation_fraction": 0.0, "pooling": "mean"}


@contextlib.contextmanager
def room(bytes_left: int):
    """Leaves this many bytes to tensors."""
    before = _core.memory_limit()
    _core.release_cached_memory()
    _core.set_memory_limit(_core.current_memory() + bytes_left)
    try:
        yield
    finally:
        _core.set_memory_limit(before)


def long_waves(length: int = 400):
    return waves(8, lengths=(length - 20, length))  # 8 series


def weights(model):
    return {name: np.array(t) for name, t in model.model_.named_parameters()}


def needs(batch_size: int = 8) -> tuple[int, int]:
    """Returns the bytes of a step without and with recomputation."""
    X, y = long_waves()
    model = ea.TimeSeriesClassifier(**QUICK).fit(X, y).model_
    order = sorted(X, key=lambda one: one.shape[1])[-batch_size:]
    batch = {
        "values": np.concatenate([x.T for x in order]).astype(np.float32),
        "sequence_offsets": np.cumsum([0, *(x.shape[1] for x in order)]),
        "labels": np.zeros(len(order), np.int64),
    }
    found = []
    for switch in ("disable", "enable"):
        getattr(model, f"gradient_checkpointing_{switch}")()
        one = ea.plan(model, batch, optimizer="radam")
        found.append(one.peak - one.parameters)
    return found[0], found[1]


def test_recomputation_where_memory_is_short() -> None:
    X, y = long_waves()
    plain = ea.TimeSeriesClassifier(**QUICK).fit(X, y)
    whole, lean = needs()
    assert lean < 0.7 * whole
    model = ea.TimeSeriesClassifier(**QUICK)
    with (
        room((whole + lean) // 2),
        pytest.warns(UserWarning, match=r"8 series of up to \d+ time") as told,
    ):
        model.fit(X, y)
    (one,) = told
    assert one.filename == __file__  # the line that calls fit
    text = str(one.message)
    assert "bytes) are left" in text
    assert "lower batch_size, or max_length" in text
    assert not model.model_.is_gradient_checkpointing
    for name, value in weights(plain).items():
        np.testing.assert_array_equal(weights(model)[name], value)


def test_a_warning_says_that_even_recomputation_may_not_fit(monkeypatch) -> None:
    def planned(*_, **__):
        return next(plans)

    made = [ea.memory.Plan(0, 0, 0, kept, peak) for kept, peak in ((9, 9), (1, 7))]
    plans = iter([dataclasses.replace(p, peak=p.peak * MIB) for p in made])
    monkeypatch.setattr(headroom, "upper_bound", lambda *_: 1 << 60)
    monkeypatch.setattr(headroom, "plan", planned)
    monkeypatch.setattr(headroom, "left", lambda: 6 * MIB)
    with pytest.warns(
        UserWarning, match=r"about 7\.0 MiB .* probably too much, too\. S"
    ):
        ea.TimeSeriesClassifier(**QUICK).fit(*long_waves())


def test_what_never_fits_is_refused_before_the_first_step(monkeypatch) -> None:
    X, y = long_waves()
    steps = []
    monkeypatch.setattr(ea.Trainer, "train", lambda *_, **__: steps.append(1))
    message = r"fit: a step on 8 series .* at least .* bytes\) that are left; lower"
    with room(MIB), pytest.raises(ea.OutOfMemory, match=message):
        ea.TimeSeriesClassifier(**QUICK).fit(X, y)
    assert not steps


def test_a_refused_warm_start_keeps_the_fit() -> None:
    X, y = long_waves()
    model = ea.TimeSeriesClassifier(**QUICK, warm_start=True).fit(X, y)
    kept = weights(model)
    with room(MIB), pytest.raises(ea.OutOfMemory):
        model.fit(X, y)
    assert not model.model_.is_gradient_checkpointing
    for name, value in kept.items():
        np.testing.assert_array_equal(weights(model)[name], value)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_plan_changes_no_bit(weighted, monkeypatch) -> None:
    X, y = waves(12)
    weight = np.arange(1, 13) if weighted else None
    options = {**QUICK, "dropout": 0.3}
    plain = ea.TimeSeriesClassifier(**options).fit(X, y, weight)
    planned = []
    monkeypatch.setattr(headroom, "upper_bound", lambda *_: 1 << 60)
    monkeypatch.setattr(
        headroom, "plan", lambda *a, **k: planned.append(1) or ea.plan(*a, **k)
    )
    again = ea.TimeSeriesClassifier(**options).fit(X, y, weight)
    assert planned == [1]
    for name, value in weights(plain).items():
        np.testing.assert_array_equal(weights(again)[name], value)


def test_pretraining_and_regression_are_planned(monkeypatch) -> None:
    X, _ = long_waves()
    whole = needs()[0]
    estimator = ea.TimeSeriesRegressor(**QUICK)
    with room(MIB), pytest.raises(ea.OutOfMemory, match="8 series"):
        estimator.fit(X, np.arange(8.0))
    model, _ = ea.estimators.pretrain(estimator, X)
    with (
        room(whole * 3 // 4),
        pytest.warns(UserWarning, match="computes each layer again") as told,
    ):
        again, _ = ea.estimators.pretrain(estimator, X)
    assert told[0].filename == __file__
    for (name, one), (_, other) in zip(
        model.named_parameters(), again.named_parameters(), strict=True
    ):
        np.testing.assert_array_equal(np.array(one), np.array(other), name)


def test_short_series_are_not_planned(monkeypatch) -> None:
    monkeypatch.setattr(headroom, "plan", lambda *_, **__: pytest.fail("planned"))
    with room(512 * MIB):
        ea.TimeSeriesClassifier(**QUICK).fit(*waves(12))


@pytest.mark.parametrize("kind", helpers_series.VARIANTS)
def test_the_bound_is_above_the_plan(kind) -> None:
    options = {**helpers_series.VARIANTS[kind], "max_length": 150}
    model = helpers_series.tiny(**options)
    for lengths in ((5, 9, 1), (150,) * 4):
        batch = helpers_series.draw(lengths)
        labels = helpers_series.targets_for(model, batch)
        found = ea.plan(model, {**batch.packed(), **labels}, optimizer="radam")
        assert headroom.upper_bound(model, np.array(lengths)) > found.peak


def test_memory_left_is_the_least_that_anything_leaves(tmp_path) -> None:
    file = tmp_path / "meminfo"
    file.write_text("MemTotal: 9 kB\nMemAvailable:  2048 kB\nSwapFree: 1024 kB\n")
    assert headroom.left(str(file)) <= 3 * MIB
    with room(MIB):
        assert headroom.left(str(file)) == MIB
        file.write_text("nothing\n")
        assert headroom.left(str(file)) == MIB
    with room(-_core.current_memory()):  # no limit
        assert headroom.left(str(file)) is None
