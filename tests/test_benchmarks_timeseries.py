"""The comparison of time-series models: its runs and tables, and the search."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("aeon", reason="no aeon (extra timeseries)")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import (
    harness,
    seeds,
    timeseries,
    timeseries_search,
    timeseries_settings,
)
from benchmarks.timeseries_settings import ARMS, LONGER, MODELS, settings_of
from series_data import signal_sender

DATASET = "ItalyPowerDemand"  # short series
SHAPE = ("hidden_size", "num_blocks", "dropout", "n_epochs", "model_options")


def one_run(arm: str, turn: int, score: float, **changed: object) -> timeseries.Run:
    """Returns a record; turn <= 0 is the archive's split with the seed 1 - turn."""
    return {
        "dataset": "JapaneseVowels",
        "arm": arm,
        "resample": max(turn, 0),
        "seed": turn if turn > 0 else 1 - turn,
        "score": score,
        "train": 270,
        "test": 370,
        "fit_seconds": 2.0,
        "cpu_seconds": 2.0,
        **changed,
    }


# --- what is compared -----------------------------------------------------------------


def test_all_models_have_one_shape() -> None:
    for dataset in timeseries_settings.EPOCHS:
        found = {name: settings_of(dataset, name) for name in MODELS}
        for key in SHAPE:
            assert len({str(one[key]) for one in found.values()}) == 1
    assert found["ea-dc-t"]["attention"]["kind"] == "evolving"
    assert found["dilated-conv"]["attention_ratio"] == 0
    assert found["transformer"]["attention_ratio"] == 1
    assert all(one["validation_fraction"] == 0 for one in found.values())


def test_a_resample_keeps_the_series_of_each_class() -> None:
    import evolving_attention as ea

    data = ea.timeseries.load(DATASET)
    archive = timeseries.resampled(data, 0)
    assert np.array_equal(archive[1], data.train.y)
    assert np.array_equal(archive[3], data.test.y)
    for turn in (1, 2):
        X, y, test_X, test_y = timeseries.resampled(data, turn)
        assert np.array_equal(np.sort(y), np.sort(data.train.y))
        assert np.array_equal(np.sort(test_y), np.sort(data.test.y))
        assert len(X) == len(y)
        assert len(test_X) == len(test_y)
        everything = np.sort([x.sum() for x in [*X, *test_X]])
        assert np.allclose(
            everything, np.sort([x.sum() for x in [*archive[0], *archive[2]]])
        )
        again = timeseries.resampled(data, turn)
        assert np.array_equal(X, again[0])
    assert not np.array_equal(timeseries.resampled(data, 1)[0], X)


def test_a_resample_of_values_keeps_their_number() -> None:
    parts = [np.arange(5.0), np.arange(5.0, 12.0)]
    data = SimpleNamespace(
        is_regression=True,
        train=SimpleNamespace(X=parts[0][:, None, None], y=parts[0]),
        test=SimpleNamespace(X=parts[1][:, None, None], y=parts[1]),
    )
    X, y, test_X, test_y = timeseries.resampled(data, 3)
    assert len(y) == 5
    assert np.array_equal(np.sort([*y, *test_y]), np.arange(12.0))
    assert np.array_equal(np.ravel(X), y)
    assert np.array_equal(np.ravel(test_X), test_y)
    assert not np.array_equal(y, parts[0])


def test_the_longer_runs_have_the_seconds_of_evolving_ones() -> None:
    runs = [
        one_run(arm, 0, 98.0, cpu_seconds=seconds)
        for arm, seconds in (("ea-dc-t", 3.0), ("dc-t", 2.0))
    ]
    assert timeseries.longer_epochs(runs, "JapaneseVowels") == 90  # instead of 60
    runs.append(one_run(LONGER, 0, 98.0, options={"n_epochs": 77}))
    assert timeseries.longer_epochs(runs, "JapaneseVowels") == 77  # as recorded
    options = SimpleNamespace(arms=list(ARMS), seeds=2, resamples=1)
    order = [(one["resample"], one["arm"]) for one in timeseries.wanted(options)]
    assert order.index((0, LONGER)) > max(
        at for at, one in enumerate(order) if one == (0, "dc-t")
    )
    assert order.count((0, "1nn-dtw")) == 1
    assert order.count((0, LONGER)) == order.count((0, "ea-dc-t")) == 2


# --- the runs -------------------------------------------------------------------------


@pytest.fixture
def tiny(monkeypatch):
    """The comparison with settings that take no time."""
    small = {
        "hidden_size": 16,
        "num_blocks": 1,
        "num_attention_heads": 2,
        "dropout": 0.1,
        "model_options": {"intermediate_size": 16},
        "validation_fraction": 0.0,
    }
    monkeypatch.setattr(timeseries_settings, "_COMMON", small)
    monkeypatch.setattr(harness, "machine", lambda threads: {})
    monkeypatch.setitem(timeseries_settings.EPOCHS, DATASET, 2)


def test_every_run_is_kept_and_not_repeated(tiny, tmp_path, capsys) -> None:
    result = tmp_path / "found.json"
    words = ["--datasets", DATASET, "--arms", "ea-dc-t", "dc-t", LONGER, "1nn-dtw"]
    words += ["--seeds", "1", "--resamples", "1", "--threads", "1"]
    timeseries.main([*words, "--result", str(result)])
    shown = capsys.readouterr().out
    assert "Average rank over the classification sets: ea-dc-t" in shown
    record = json.loads(result.read_text())
    assert [(one["resample"], one["arm"]) for one in record["runs"]] == [
        (0, "ea-dc-t"),
        (0, "dc-t"),
        (0, "1nn-dtw"),
        (0, LONGER),
        (1, "ea-dc-t"),
        (1, "dc-t"),
        (1, LONGER),
        (1, "1nn-dtw"),
    ]
    by_arm = {one["arm"]: one for one in record["runs"]}
    assert by_arm["dc-t"]["options"]["attention"] == {"kind": "vanilla"}
    assert by_arm["dc-t"]["options"]["max_length"] == 24
    assert by_arm["dc-t"]["train"] == 67
    assert by_arm["dc-t"]["cpu"] == harness.cpu_model()[0]

    record["runs"][1]["score"] = 12.5  # results come from the file, not from a new run
    result.write_text(json.dumps(record))
    timeseries.main([*words, "--result", str(result)])
    assert "| dc-t | 12.50 | 1 |" in capsys.readouterr().out
    record["settings"][DATASET]["dc-t"]["dropout"] = 0.5
    result.write_text(json.dumps(record))
    with pytest.raises(SystemExit, match="other settings"):
        timeseries.main([*words, "--result", str(result)])


def test_an_interrupted_run_is_not_recorded(tiny, tmp_path, monkeypatch) -> None:
    result = tmp_path / "found.json"
    signal_sender(monkeypatch)(signal.SIGINT, epoch=2)
    words = ["--datasets", DATASET, "--arms", "dc-t", "--seeds", "1"]
    with pytest.raises(KeyboardInterrupt):
        timeseries.main([*words, "--threads", "1", "--result", str(result)])
    assert not result.exists()


# --- the tables -----------------------------------------------------------------------


def test_the_interval_over_resamples_is_wider() -> None:
    from scipy import stats

    gains = [0.5, -0.5, 0.5, 1.0]
    expected = stats.ttest_1samp(gains, 0).confidence_interval(0.95)
    text = f"+0.38 ({expected.low:+.2f} to {expected.high:+.2f})"
    assert seeds.interval(gains, 2) == text
    # Nadeau and Bengio: the variance of the mean is s² (1/n + test/train)
    half = (expected.high - expected.low) / 2 * np.sqrt(1 + 4 * 370 / 270)
    text = f"+0.38 ({0.375 - half:+.2f} to {0.375 + half:+.2f})"
    assert seeds.interval(gains, 2, 370 / 270) == text


def test_the_table_has_both_kinds_of_runs() -> None:
    runs = [
        one_run("ea-dc-t", 0, 99.0, parameters=1234),
        one_run("ea-dc-t", -1, 98.0, parameters=1234),
        one_run("dc-t", 0, 98.0),
        one_run("dc-t", -1, 98.0),
        one_run("1nn-dtw", 0, 95.0),
        # from another machine: only the archive's split counts for seconds per fit
        one_run("ea-dc-t", 1, 97.0, parameters=1234, cpu_seconds=9.0),
        one_run("dc-t", 1, 98.0),
    ]
    lines = timeseries.table(runs, "JapaneseVowels").splitlines()
    assert "| ea-dc-t | 98.50 ± 0.71 | 2 |  | 97.00 | 1 |  | 1,234 | 2.0 s |" in lines
    assert (
        "| dc-t | 98.00 ± 0.00 | 2 | +0.50 (-5.85 to +6.85) | 98.00 | 1 "
        "| -1.00 |  | 2.0 s |" in lines
    )
    # 1nn-dtw draws no random numbers: its one run counts for every seed
    dtw = next(line for line in lines if line.startswith("| 1nn-dtw"))
    assert dtw.startswith("| 1nn-dtw | 95.00 ± 0.00 | 2 | +3.50 (")
    assert "| EA-DC-T (paper), published | 98.50 |" in lines[-5]


def test_equal_means_share_a_rank() -> None:
    sums = {"ea-dc-t": 98.0, "dc-t": float(np.nextafter(98.0, 99))}  # other rounding
    runs = [one_run(arm, 0, mean) for arm, mean in sums.items()]
    runs += [one_run(arm, 0, 90.0, dataset="GunPoint") for arm in sums]
    assert timeseries.over_datasets(runs) == [
        "Average rank over the classification sets: ea-dc-t 1.500, dc-t 1.500."
    ]
    errors = {"ea-dc-t": 2.0, "dc-t": 4.0}
    runs = [one_run(arm, 0, x, dataset="Covid3Month") for arm, x in errors.items()]
    assert timeseries.over_datasets(runs) == [
        "Average relative difference of RMSE (Eq. 12): ea-dc-t -0.333, dc-t 0.333."
    ]


def test_the_page_is_the_records(tmp_path, monkeypatch) -> None:
    page, shown = tmp_path / "page.md", timeseries.PAGE.read_text()
    begin, end = (f"<!-- {timeseries.MARKER}:{name} -->" for name in ("begin", "end"))
    page.write_text(f"{shown.split(begin)[0]}{begin}\nold\n{end}{shown.split(end)[1]}")
    monkeypatch.setattr(timeseries, "PAGE", page)
    timeseries.main(["--seeds", "0", "--resamples", "0"])
    assert page.read_text() == shown


# --- the search -----------------------------------------------------------------------


def test_the_search_gives_all_models_one_shape(tmp_path, monkeypatch) -> None:
    """Uses fake fits, in which wider is better and more blocks are worse."""
    done = []

    def fit(data, shape, model, split):
        done.append((shape, model, split))
        accuracy = 0.9 + 0.01 * (shape["hidden_size"] == 128)
        pooled = (shape["model_options"] or {}).get("pooling") == "mean"
        return {"accuracy": accuracy, "loss": 0.1 * shape["num_blocks"] - 0.05 * pooled}

    monkeypatch.setattr(timeseries_search, "fit", fit)
    monkeypatch.setattr(harness, "machine", lambda threads: {})
    result = tmp_path / "search.json"
    best, found = timeseries_search.search("JapaneseVowels", result, 1)
    assert best == {
        "hidden_size": 128,
        "num_blocks": 2,
        "dropout": 0.1,
        "model_options": {"pooling": "mean"},
    }
    assert found["accuracy"] == pytest.approx(0.91)
    count = len(done)
    tried = {json.dumps(shape) for shape, _, _ in done}
    assert count == len(tried) * len(MODELS) * timeseries_search.SPLITS
    assert timeseries_search.search("JapaneseVowels", result, 1)[0] == best
    assert len(done) == count  # all read from the file


def test_the_chosen_shape_is_that_of_the_search(monkeypatch) -> None:
    record = json.loads(timeseries_search.RESULT.read_text())
    dataset = record["settings"]["dataset"]
    monkeypatch.setattr(timeseries_search, "fit", None)  # nothing may be left to fit
    best, _ = timeseries_search.search(dataset, timeseries_search.RESULT, 1)
    found = settings_of(dataset, "dc-t")
    assert {name: found[name] for name in best} == best


def test_a_search_fits_on_a_part_and_scores_the_rest() -> None:
    import evolving_attention as ea

    shape = {
        "hidden_size": 16,
        "num_blocks": 1,
        "model_options": {"intermediate_size": 16},
        "n_epochs": 2,
    }
    data = ea.timeseries.load(DATASET)
    found = timeseries_search.fit(data, shape, "dilated-conv", 1)
    assert 0 <= found["accuracy"] <= 1
    assert found["loss"] > 0
