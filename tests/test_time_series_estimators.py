"""Time-series estimators: checks of aeon and scikit-learn, and their behaviour.

Every check that fails is listed in EXPECTED with its reason; one more or one less is
an error.
"""

from __future__ import annotations

import copy
import pickle
import signal
import warnings

import numpy as np
import pandas as pd
import pytest
from series_data import TINY, levels, signal_sender, waves

import evolving_attention as ea

pytest.importorskip("aeon", reason="no aeon (extra timeseries)")

from aeon.testing.estimator_checking import parametrize_with_checks
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

from evolving_attention.estimators import fitting, targets

CLASSES = [ea.TimeSeriesClassifier, ea.TimeSeriesRegressor]

# --- checks of aeon and scikit-learn --------------------------------------------------

#: scikit-learn's checks that must fail, and the reasons.
EXPECTED = {
    "check_no_attributes_set_in_init": "aeon's base class sets is_fitted and classes_ "
    "there, and its own check_constructor demands it",
    "check_dont_overwrite_parameters": "fit sets is_fitted, aeon's public mark of a "
    "fitted estimator",
    "check_n_features_in_after_fitting": "the second axis of [n, length] is time: a "
    "shorter series is valid input",
    "check_sample_weights_pandas_series": "its table of two columns looks like a long "
    "one, (series, time), which is refused",
    "check_sample_weights_not_an_array": "the same table",
    "check_sample_weight_equivalence_on_dense_data": "series given twice make other "
    "batches and another validation part than a weight of 2",
}
#: Checks that scikit-learn itself skips here, and the reasons.
SKIPPED = {"check_array_api_input": "needs SCIPY_ARRAY_API=1 in the environment"}


@parametrize_with_checks(CLASSES)
def test_aeon(check) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check()


@pytest.mark.slow
@pytest.mark.parametrize("kind", CLASSES)
def test_scikit_learn(kind) -> None:
    estimator = kind(
        **{**kind._get_test_params(), "n_epochs": 15, "learning_rate": 2e-2}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_fail=None, on_skip=None)
    found = {
        status: {r["check_name"] for r in results if r["status"] == status}
        for status in ("failed", "skipped")
    }
    told = {
        r["check_name"]: repr(r["exception"])
        for r in results
        if r["status"] == "failed"
    }
    assert found["failed"] == set(EXPECTED), told
    assert found["skipped"] <= set(SKIPPED), told
    assert len(results) >= 45


# --- learning -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted() -> ea.TimeSeriesClassifier:
    return ea.TimeSeriesClassifier(**TINY, max_length=20).fit(*waves())


def test_unequal_series_are_told_apart(fitted) -> None:
    X, y = waves(40, seed=1)
    assert fitted.score(X, y) >= 0.9
    odds = fitted.predict_proba(X)
    np.testing.assert_allclose(odds.sum(axis=1), 1)
    np.testing.assert_array_equal(fitted.classes_[odds.argmax(1)], fitted.predict(X))
    assert fitted.classes_.tolist() == ["fast", "slow"]


def test_values_are_regressed_in_their_own_units() -> None:
    model = ea.TimeSeriesRegressor(**{**TINY, "n_epochs": 30}).fit(*levels())
    X, y = levels(40, seed=1)
    assert np.sqrt(np.mean((model.predict(X) - y) ** 2)) < 2.5
    assert model.score(X, y) > 0.8  # R²


@pytest.mark.parametrize("size", [1e200, 1.7e308])
def test_targets_whose_deviation_exceeds_float64_are_refused(size) -> None:
    y = np.linspace(-1, 1, 8) * size
    says = "y has values up to .*, expected a mean and a deviation within float64"
    with pytest.raises(ea.InputError, match=says):
        ea.TimeSeriesRegressor(**TINY).fit(np.zeros((8, 1, 12)), y)


def test_every_form_of_the_same_series_gives_the_same_bits(fitted) -> None:
    X, _ = waves(6, seed=2)
    longest = max(one.shape[1] for one in X)
    table = np.full((6, 2, longest), np.nan)  # NaN at the end is padding
    for row, one in zip(table, X, strict=True):
        row[:, : one.shape[1]] = one
    expected = fitted.predict_proba(X)
    np.testing.assert_array_equal(fitted.predict_proba(table), expected)
    np.testing.assert_array_equal(fitted.predict_proba(tuple(X)), expected)


FORMS = {
    "frames": lambda X: [pd.DataFrame(one.T) for one in X],
    "frames of a long table": lambda X: [
        group.drop(columns=["id", "time"]) for _, group in long_table(X).groupby("id")
    ],
    "a table with an index": lambda X: long_table(X).set_index(["id", "time"]),
    "aeon's frames": lambda X: [pd.DataFrame(one) for one in X],
    "time_axis=1": lambda X: X.transpose(0, 2, 1),
}


def long_table(X) -> pd.DataFrame:
    parts = [
        pd.DataFrame(one.T, columns=list("abcdef")).assign(
            id=i, time=range(one.shape[1])
        )
        for i, one in enumerate(X)
    ]
    return pd.concat(parts)


def test_time_first_gives_the_same_fit(tmp_path, caplog) -> None:
    data = ea.timeseries.load("BasicMotions")
    X, XT = (np.asarray(part.X)[:, :, :30] for part in (data.train, data.test))
    y, yt = data.train.y, data.test.y
    options = {**TINY, "n_epochs": 1}
    expected = ea.TimeSeriesClassifier(**options).fit(X, y)
    assert caplog.messages == []
    odds, score = expected.predict_proba(XT), expected.score(XT, yt)
    for name, form in FORMS.items():
        model = ea.TimeSeriesClassifier(**options)
        if name == "time_axis=1":
            model.set_params(time_axis=1)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model.fit(form(X), y)
            np.testing.assert_array_equal(model.predict_proba(form(XT)), odds)
            assert model.score(form(XT), yt) == score, name
        assert [
            str(w.message)[-55:] for w in told if "time_axis" in str(w.message)
        ] == (
            ["me_axis=1 says that it is the rows, time_axis=2 the columns"[-55:]]
            if name == "aeon's frames"
            else []
        )
        assert clone(model).time_axis == model.time_axis
        model.save(tmp_path)
        again = ea.TimeSeriesClassifier.load(tmp_path)  # keeps the time axis
        np.testing.assert_array_equal(again.predict_proba(form(XT)), odds)
    line = "X: 40 series, 6 channels, 30 time steps; axis 1 (rows) is time; time_axis= "
    assert caplog.messages == [line + "changes it"] * 2  # once for each kind of frame


def test_predict_reads_as_fit_did() -> None:
    X, y = equal(*waves())
    model = ea.TimeSeriesClassifier(**{**TINY, "n_epochs": 1, "max_length": 12})
    model.fit([pd.DataFrame(one) for one in X], y)  # wide: aeon's form
    short = [one[:, :2] for one in X]  # two channels, two steps: a square
    expected = model.predict_proba(short)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.predict_proba([pd.DataFrame(one) for one in short])
    np.testing.assert_array_equal(found, expected)


def test_more_channels_than_time_steps_are_doubted() -> None:
    X, y = equal(*waves())
    first = np.stack(X).transpose(0, 2, 1)
    model = ea.TimeSeriesClassifier(**{**TINY, "n_epochs": 1})
    doubt = r"X has 12 channels and 2 time steps: is time first\? time_axis=1"
    with pytest.warns(UserWarning, match=doubt):
        model.fit(first, y)
    with pytest.warns(UserWarning, match=doubt):
        ea.estimators.pretrain(model, first)
    model.set_params(time_axis=1)
    found = model.fit_predict_proba(first, y, cv_size=2)
    expected = model.set_params(time_axis=None).fit_predict_proba(X, y, cv_size=2)
    np.testing.assert_array_equal(found, expected)


def test_missing_values_are_filled(fitted) -> None:
    X, y = waves(40, seed=3)
    complete = fitted.score(X, y)
    for one in X:
        one[0, 3] = np.nan
    assert complete > 0.7
    assert fitted.score(X, y) >= complete - 0.05
    refusing = ea.TimeSeriesClassifier(**TINY, missing="refuse")
    with pytest.raises(ea.InputError, match=r"X\[0\]\[0, 3\]"):
        refusing.fit(X, y)


@pytest.mark.parametrize(
    "options",
    [
        {"attention": ea.attention.Vanilla()},
        {"attention": {"kind": "residual"}},
        {"attention_ratio": 0.0},
        {"attention_ratio": 1.0},
        {"scale": "series"},
        {"scale": "none"},
        {"lr_schedule": "cosine", "weight_decay": 0.01},
        {"validation_fraction": 0.0},
        {"model_options": {"pooling": "mean", "causal": False, "norm": "layer"}},
    ],
    ids=str,
)
def test_every_option_trains(options) -> None:
    """The loss at least halves; how well the model generalises depends on the seed."""
    X, y = waves()
    model = ea.TimeSeriesClassifier(**{**TINY, "n_epochs": 40, **options}).fit(X, y)
    losses = [row["loss"] for row in model.history_]
    assert np.mean(losses[-5:]) < 0.5 * losses[0]
    assert model.score(X, y) > 0.5


@pytest.mark.parametrize("kind", CLASSES)
def test_the_usual_optimizer_is_the_papers(kind, monkeypatch) -> None:
    """RAdam as in Section 4.1 (TPAMI); the released program clips gradients at 4."""
    trainers = []

    class Kept(fitting._MemoryTrainer):
        def train(self) -> None:
            trainers.append(self)
            super().train()

    monkeypatch.setattr(fitting, "_MemoryTrainer", Kept)
    options = {n: v for n, v in TINY.items() if n != "learning_rate"} | {"n_epochs": 1}
    kind(**options).fit(levels(16)[0], np.arange(16) % 2)
    (trainer,) = trainers
    assert type(trainer.optimizer) is ea.optim.RAdam
    assert trainer.optimizer.betas == (0.9, 0.99)
    assert (trainer.args.learning_rate, trainer.args.max_grad_norm) == (1e-3, 4.0)


# --- state kept by training -----------------------------------------------------------


def test_the_best_epochs_weights_are_kept() -> None:
    X, y = waves(60)
    model = ea.TimeSeriesClassifier(**{**TINY, "validation_fraction": 0.3}).fit(X, y)
    history = model.history_
    assert [row["epoch"] for row in history] == list(range(1, TINY["n_epochs"] + 1))
    keys = [(-row["validation_accuracy"], row["validation_loss"]) for row in history]
    assert model.best_epoch_ == 1 + keys.index(min(keys))
    numbers = targets.class_numbers(y, model.classes_)
    _, held_out = targets.split(60, 0.3, seed_of(model), numbers)
    accuracy = np.mean(model.predict([X[i] for i in held_out]) == y[held_out])
    best = history[model.best_epoch_ - 1]
    assert accuracy == pytest.approx(best["validation_accuracy"])


def seed_of(model) -> int:
    return np.random.RandomState(model.random_state).randint(np.iinfo(np.int32).max)


def test_patience_ends_training() -> None:
    options = {**TINY, "n_epochs": 200, "patience": 2, "learning_rate": 0.03}
    model = ea.TimeSeriesClassifier(**options).fit(*waves())
    assert len(model.history_) == model.best_epoch_ + 2 < 200


def test_without_validation_the_last_weights_are_kept() -> None:
    model = ea.TimeSeriesClassifier(**{**TINY, "validation_fraction": 0}).fit(*waves())
    assert model.best_epoch_ == len(model.history_) == TINY["n_epochs"]
    assert "validation_loss" not in model.history_[0]


def test_the_split_keeps_the_classes() -> None:
    numbers = np.array([0] * 30 + [1] * 10 + [2])
    training, held_out = targets.split(41, 0.2, 0, numbers)
    assert sorted([*training, *held_out]) == list(range(41))
    assert np.bincount(numbers[held_out]).tolist() == [6, 2]
    assert 2 in numbers[training]
    assert not np.array_equal(held_out, targets.split(41, 0.2, 1, numbers)[1])


# --- randomness -----------------------------------------------------------------------


def test_one_seed_gives_the_same_bits_for_any_threads(fitted) -> None:
    X, _ = waves(10, seed=4)
    before = ea.get_num_threads()
    try:
        ea.set_num_threads(1)
        again = ea.TimeSeriesClassifier(**TINY, max_length=20).fit(*waves())
    finally:
        ea.set_num_threads(before)
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    other = clone(fitted).set_params(random_state=1).fit(*waves())
    assert not np.array_equal(other.predict_proba(X), fitted.predict_proba(X))


def test_the_callers_random_numbers_stay() -> None:
    ea.manual_seed(5)
    np.random.seed(5)
    expected = (np.random.rand(), ea.get_rng_state())
    ea.manual_seed(5)
    np.random.seed(5)
    ea.TimeSeriesClassifier(**{**TINY, "n_epochs": 1}).fit(*waves())
    assert (np.random.rand(), ea.get_rng_state()) == expected


# --- files and scikit-learn conventions -----------------------------------------------


@pytest.mark.parametrize("way", ["folder", "pickle", "copy", "deepcopy"])
@pytest.mark.parametrize("kind", CLASSES)
def test_kept_estimators_give_the_same_bits(kind, way, tmp_path) -> None:
    X, y = waves() if kind is ea.TimeSeriesClassifier else levels()
    options = {**TINY, "n_epochs": 2, "attention": ea.attention.Evolving(0.3, 0.5)}
    model = kind(**options).fit(X, y)
    if way == "pickle":
        again = pickle.loads(pickle.dumps(model))
    elif way in ("copy", "deepcopy"):
        again = getattr(copy, way)(model)
        assert (again.model_ is model.model_) == (way == "copy")
    else:
        model.save(tmp_path / "kept")
        again = kind.load(tmp_path / "kept")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.get_params() == model.get_params()
    assert again.history_ == model.history_
    assert again.predict(X).dtype == model.predict(X).dtype


def test_a_pickle_of_the_first_version_says_what_to_do() -> None:
    model = ea.TimeSeriesClassifier(**TINY)
    model.model_ = {"class": "EADCTransformerForClassification", "state": {}}
    with pytest.raises(ea.CheckpointError, match=r"of version 0\.1\.0.*fit again"):
        pickle.loads(pickle.dumps(model))


def test_a_folder_of_another_estimator(tmp_path) -> None:
    ea.TimeSeriesClassifier(**{**TINY, "n_epochs": 1}).fit(*waves()).save(tmp_path)
    with pytest.raises(ea.CheckpointError, match=r"'TimeSeriesClass.*its own cla"):
        ea.TimeSeriesRegressor.load(tmp_path)
    (tmp_path / "estimator.json").write_text('{"format": 1, "estimator": ')
    with pytest.raises(ea.CheckpointError, match="not valid JSON"):
        ea.TimeSeriesClassifier.load(tmp_path)


def test_a_folder_of_two_saves_is_refused(tmp_path) -> None:
    X, y = waves(20)
    options = {**TINY, "n_epochs": 1}
    model = ea.TimeSeriesClassifier(**options).fit(X, y)
    model.save(tmp_path)
    other = ea.TimeSeriesClassifier(**options).fit(
        X, np.where(y == y[0], "cold", "warm")
    )
    other.model_.save_pretrained(tmp_path)  # as if the record could not be written
    with pytest.raises(ea.CheckpointError, match=r"config\.json: is not the file that"):
        ea.TimeSeriesClassifier.load(tmp_path)
    other.save(tmp_path)
    loaded = ea.TimeSeriesClassifier.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(X), other.predict_proba(X))


def test_loading_keeps_the_number_of_features(tmp_path) -> None:
    model = ea.TimeSeriesClassifier(**{**TINY, "n_epochs": 1})
    model.fit(np.stack(waves(12, lengths=(12, 13))[0])[:, 0], np.arange(12) % 2)
    model.save(tmp_path)
    loaded = ea.TimeSeriesClassifier.load(tmp_path)
    assert loaded.n_features_in_ == model.n_features_in_ == 12


def test_grid_search_over_attention() -> None:
    grid = {
        "attention": [ea.attention.Vanilla(), ea.attention.Evolving(0.5, 0.3)],
        "learning_rate": [1e-2],
    }
    model = ea.TimeSeriesClassifier(**{**TINY, "n_epochs": 4})
    found = GridSearchCV(model, grid, cv=2).fit(
        np.stack(equal(*waves())[0]), waves()[1]
    )
    assert found.best_params_["attention"] in grid["attention"]
    assert found.best_score_ > 0.4


def equal(X, y):
    return [one[:, :12] for one in X], y


def test_predictions_by_cross_validation() -> None:
    X, y = equal(*waves(24))
    model = ea.TimeSeriesClassifier(**{**TINY, "n_epochs": 4})
    assert model.fit_predict(X, y, cv_size=2).shape == (24,)


@pytest.fixture
def send(monkeypatch):
    return signal_sender(monkeypatch)


@pytest.mark.parametrize("fraction", [0.0, 0.3])
def test_ctrl_c_keeps_the_best_epoch_so_far(send, fraction) -> None:
    options = {**TINY, "validation_fraction": fraction, "n_epochs": 50}
    send(signal.SIGINT, epoch=4)
    with pytest.warns(UserWarning, match="SIGINT after 3 of 50 epochs: .*fit again"):
        model = ea.TimeSeriesClassifier(**options).fit(*waves())
    send()
    whole = ea.TimeSeriesClassifier(**{**options, "n_epochs": 3}).fit(*waves())
    assert (model.interrupted_, whole.interrupted_) == ("SIGINT", None)
    assert model.history_ == whole.history_
    assert model.best_epoch_ == whole.best_epoch_
    X, _ = waves(10, seed=4)
    X = [one[:, :12] for one in X]
    np.testing.assert_array_equal(model.predict_proba(X), whole.predict_proba(X))


def test_other_signals_end_the_process_with_a_fitted_estimator(send, tmp_path) -> None:
    model = ea.TimeSeriesClassifier(**TINY)
    send(signal.SIGTERM, epoch=3)
    with pytest.raises(ea.Interrupted, match="SIGTERM after 2 of 12 epochs") as told:
        model.fit(*waves())
    assert told.value.signal_number == signal.SIGTERM
    model.save(tmp_path)
    again = ea.TimeSeriesClassifier.load(tmp_path)
    assert (len(again.history_), again.interrupted_) == (2, "SIGTERM")


@pytest.mark.parametrize(("times", "epoch"), [(1, 1), (2, 3)], ids=["early", "twice"])
def test_ctrl_c_goes_through(send, times, epoch, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = ea.TimeSeriesClassifier(**TINY)
    send(*[signal.SIGINT] * times, epoch=epoch)
    with pytest.raises(
        KeyboardInterrupt, match="before the first" if times < 2 else None
    ):
        model.fit(*waves())
    assert not list(tmp_path.iterdir())
    with pytest.raises(Exception, match="not been fitted"):
        model.predict(waves()[0])


def test_ctrl_c_in_pretraining_keeps_the_best_epoch_so_far(send) -> None:
    send(signal.SIGINT, epoch=3)
    with pytest.warns(UserWarning, match="SIGINT after 2 of 12 epochs"):
        model, result = ea.estimators.pretrain(
            ea.TimeSeriesClassifier(**TINY), waves()[0]
        )
    assert len(result.history) == 2
    assert model.config.channels == 2


def test_a_fit_writes_nothing(tmp_path, monkeypatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    ea.TimeSeriesClassifier(**{**TINY, "n_epochs": 2}).fit(*waves())
    assert not list(tmp_path.iterdir())
    assert not fitting.nowhere().exists()
    assert capfd.readouterr() == ("", "")
    ea.TimeSeriesClassifier(**{**TINY, "n_epochs": 2, "verbose": 1}).fit(*waves())
    assert "loss" in capfd.readouterr().err


# --- pre-training ---------------------------------------------------------------------


def test_pretraining_is_what_fine_tuning_begins_with(tmp_path) -> None:
    X, y = waves(60)
    options = {**TINY, "max_length": 20}
    model, result = ea.estimators.pretrain(ea.TimeSeriesClassifier(**options), X)
    losses = [row["validation_loss"] for row in result.history]
    assert min(losses) < 0.9 * losses[0]
    assert min(losses) < 1  # predicting the mean would give 1
    model.save_pretrained(tmp_path)
    options = {**options, "max_length": None, "pretrained": tmp_path, "n_epochs": 1}
    options["learning_rate"] = 0.0
    tuned = ea.TimeSeriesClassifier(**options).fit(X, y)
    mine, theirs = tuned.model_.state_dict(), model.state_dict()
    shared = [n for n in mine if n in theirs and "running" not in n]
    assert len(shared) > 10
    for name in shared:
        np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)
    with pytest.raises(ea.InputError, match="1 channels, expected 2 as in the pre-tr"):
        ea.TimeSeriesClassifier(**options).fit([one[:1] for one in X], y)
    with pytest.raises(ea.InputError, match="at most 20 as in the pre-training"):
        ea.TimeSeriesClassifier(**options).fit([np.ones((2, 21))] * 60, y)


def test_hidden_cells_are_fixed_in_validation_alone() -> None:
    from evolving_attention.data.series_scaling import SeriesScaler
    from evolving_attention.estimators.pretraining import MaskedRows

    X, _ = waves(40)
    rows = SeriesScaler().fit(X).transform(X)
    hide = {"ratio": 0.15, "mean_span": 3.0, "seed": 1}
    fixed = MaskedRows(rows, **hide, fixed=True)
    fresh = MaskedRows(rows, **hide)
    every = np.arange(40)
    first, second = (part.gather(every)["masked"] for part in (fixed, fixed))
    np.testing.assert_array_equal(first, second)
    assert first.shape == rows.values.shape
    assert 0.08 < first.mean() < 0.25
    shown, again = (part.gather(every)["masked"] for part in (fresh, fresh))
    assert (shown != again).any()
    np.testing.assert_array_equal(
        fixed.gather([3])["masked"], first[slice(*rows.offsets[3:5])]
    )
