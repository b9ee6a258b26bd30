"""The comparison of time-series models: its record and tables, and the search."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("aeon", reason="no aeon (extra timeseries)")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import (
    timeseries,
    timeseries_reproduce,
    timeseries_search,
    timeseries_settings,
)
from benchmarks.timeseries_settings import MODELS, settings_of
from series_data import signal_sender, waves, write_ts

import evolving_attention as ea
from evolving_attention.errors import ConfigError


def write_run(folder: Path, dataset: str, model: str, seed: int, score: float) -> None:
    metric = "rmse" if dataset == "Covid3Month" else "accuracy"
    run = {
        "dataset": dataset,
        "model": model,
        "seed": seed,
        "test": {metric: score, "series": 5},
        "fit_seconds": 2.0,
    }
    file = folder / dataset / f"{model}-{seed}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(run))


def test_runs_become_tables_on_the_page(tmp_path, capsys) -> None:
    pytest.importorskip("scipy")
    runs = tmp_path / "runs"
    for seed, (ours, theirs) in enumerate([(0.99, 0.98), (0.98, 0.98)], start=1):
        write_run(runs, "JapaneseVowels", "dc-t", seed, theirs)
        write_run(runs, "JapaneseVowels", "ea-dc-t", seed, ours)
        write_run(runs, "Covid3Month", "ea-dc-t", seed, 0.05)
    page = tmp_path / "page.md"
    page.write_text(f"# A\n{timeseries.BEGIN}\nold\n{timeseries.END}\nrest\n")
    result = tmp_path / "result.json"
    words = ["--output", str(runs), "--only-collect", "--page", str(page)]
    timeseries.main([*words, "--result", str(result)])
    text = page.read_text()
    assert "old" not in text
    assert text.endswith(f"{timeseries.END}\nrest\n")
    row = "| ea-dc-t | 98.50 ± 0.71 | 98.00 to 99.00 | 2 |  |  | 2.0 s |"
    other = (
        "| dc-t | 98.00 ± 0.00 | 98.00 to 98.00 | 2 | +0.50 | -5.85 to +6.85 | 2.0 s |"
    )
    published = "| EA-DC-T (paper), published | 98.50 | | | | | |"
    places = [text.index(part) for part in (row, other, published, "### Covid3Month")]
    assert places == sorted(places)
    assert "average relative difference" in text.lower()
    record = json.loads(result.read_text())
    order = [(r["dataset"], r["seed"], r["model"]) for r in record["runs"]]
    assert order == [
        ("JapaneseVowels", 1, "ea-dc-t"),
        ("JapaneseVowels", 1, "dc-t"),
        ("JapaneseVowels", 2, "ea-dc-t"),
        ("JapaneseVowels", 2, "dc-t"),
        ("Covid3Month", 1, "ea-dc-t"),
        ("Covid3Month", 2, "ea-dc-t"),
    ]
    assert "machine" in record


def test_the_page_is_the_records(tmp_path) -> None:
    pytest.importorskip("scipy")
    page = tmp_path / "page.md"
    page.write_text(timeseries.PAGE.read_text())
    timeseries.main(["--only-page", "--page", str(page)])
    assert page.read_text() == timeseries.PAGE.read_text()


def test_the_page_names_the_settings_that_differ() -> None:
    runs = json.loads(timeseries.RESULT.read_text())["runs"]
    text = timeseries.PAGE.read_text()
    for run in runs:
        if run["dataset"] == "JapaneseVowels" and run["model"] in MODELS:
            options = run["options"]
            row = [
                run["model"],
                options["hidden_size"],
                options["dropout"],
                options["attention_ratio"],
                f"{run['parameters']:,}",
            ]
            assert f"| {' | '.join(map(str, row))} |" in text


def test_what_makes_each_model() -> None:
    common = {name: settings_of("JapaneseVowels", name) for name in MODELS}
    assert common["ea-dc-t"]["attention"]["kind"] == "evolving"
    assert common["dilated-conv"]["attention_ratio"] == 0
    assert common["transformer"]["attention_ratio"] == 1
    assert all(one["validation_fraction"] == 0 for one in common.values())
    with pytest.raises(ConfigError, match=r"lstm.*ea-dc-t, dc-t"):
        settings_of("JapaneseVowels", "lstm")


# --- the search -----------------------------------------------------------------------


@pytest.fixture
def fits(monkeypatch):
    """Stand-in fits: wider is better, more blocks is worse; what was fitted."""
    done = []

    def fit(self, options, split):
        done.append((options, split))
        accuracy = 0.9 + 0.01 * (options["hidden_size"] == 128)
        pooled = (options.get("model_options") or {}).get("pooling") == "mean"
        loss = 0.1 * options["num_blocks"] - 0.05 * pooled
        return {"accuracy": accuracy, "loss": loss, "fit_seconds": 0.0}

    monkeypatch.setattr(timeseries_search.Search, "_fit", fit)
    return done


def test_the_search_keeps_what_is_better_and_every_fit(fits, tmp_path) -> None:
    search = timeseries_search.Search("JapaneseVowels", tmp_path, None)
    found = search.run("dc-t")
    assert found["chosen"] == {
        "hidden_size": 128,
        "num_blocks": 2,
        "model_options": {"pooling": "mean"},
    }
    count = len(fits)
    assert count == timeseries_search.SPLITS * len(found["tried"])
    assert search.run("dc-t") == found
    assert len(fits) == count  # all from files
    assert all(options["max_length"] == 29 for options, _ in fits)
    assert not any("attention" in one["options"] for one in found["tried"])


def test_the_search_stops_in_time(fits, tmp_path, capsys) -> None:
    search = timeseries_search.Search("JapaneseVowels", tmp_path, time.monotonic() - 1)
    assert list(timeseries_search.searches(search, ["ea-dc-t", "dc-t"])) == []
    assert (
        "ea-dc-t: not finished; run the same command again" in capsys.readouterr().out
    )
    assert not fits


def test_a_search_fits_on_a_part_and_scores_the_rest(tmp_path) -> None:
    search = timeseries_search.Search("JapaneseVowels", tmp_path, None)
    options = {
        **settings_of("JapaneseVowels", "dilated-conv"),
        "hidden_size": 16,
        "num_blocks": 1,
        "model_options": {"intermediate_size": 16},
        "n_epochs": 2,
        "max_length": 29,
    }
    found = search.fit(options, 1)
    assert 0 <= found["accuracy"] <= 1
    assert found["loss"] > 0
    assert len(list(tmp_path.glob("JapaneseVowels/*-1.json"))) == 1


# --- the runs -------------------------------------------------------------------------


@pytest.fixture
def waves_dir(tmp_path):
    """A folder of data sets with one of .ts files."""
    folder = tmp_path / "data" / "Waves"
    folder.mkdir(parents=True)
    write_ts(folder / "Waves_TRAIN.ts", *waves(40))
    write_ts(folder / "Waves_TEST.ts", *waves(20, seed=1, lengths=(12, 24)))
    return folder.parent


@pytest.fixture
def run(capsys, monkeypatch):
    """Run the comparison: (exit code, stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "200")

    def command(*words):
        with pytest.raises(SystemExit) as left:
            timeseries_reproduce.main([*map(str, words)])
        shown = capsys.readouterr()
        return left.value.code or 0, shown.out, shown.err

    return command


@pytest.fixture
def tiny(monkeypatch):
    """The comparison with settings that take no time."""
    small = {
        "hidden_size": 16,
        "num_blocks": 1,
        "num_attention_heads": 2,
        "model_options": {"intermediate_size": 16},
        "n_epochs": 2,
        "validation_fraction": 0.0,
    }
    monkeypatch.setattr(timeseries_settings, "_COMMON", small)


def test_the_comparison_keeps_every_run(waves_dir, run, tiny, tmp_path) -> None:
    out = tmp_path / "runs"
    words = ["--datasets", "Waves", "--data_dir", waves_dir]
    words += ["--models", "ea-dc-t", "dc-t", "1nn-dtw", "--output_dir", out]
    code, shown, told = run(*words, "--seeds", 2)
    assert code == 0, told
    kept = sorted(file.name for file in (out / "Waves").iterdir())
    assert kept == [
        "1nn-dtw-1.json",
        "dc-t-1.json",
        "dc-t-2.json",
        "ea-dc-t-1.json",
        "ea-dc-t-2.json",
    ]
    record = json.loads((out / "Waves" / "dc-t-2.json").read_text())
    assert record["options"]["attention"] == {"kind": "vanilla"}
    assert record["options"]["max_length"] == 23
    assert "average rank" in shown

    record["test"]["accuracy"] = 0.125  # the file is what counts, not a new run
    (out / "Waves" / "dc-t-2.json").write_text(json.dumps(record))
    code, again, _ = run(*words, "--seeds", 2, "--json")
    runs = json.loads(again)["runs"]
    assert [r["test"]["accuracy"] for r in runs if r["model"] == "dc-t"][1] == 0.125
    code, _, told = run(*words, "--seeds", 2, "--n_epochs", 1)
    assert code == 2
    assert "a run with other options" in told


def test_an_interrupted_comparison_records_whole_runs(
    waves_dir, run, tiny, monkeypatch, tmp_path
) -> None:
    send = signal_sender(monkeypatch)
    words = ["--datasets", "Waves", "--data_dir", waves_dir]
    words += ["--models", "dc-t", "--seeds", 1, "--output_dir", tmp_path / "runs"]
    send(signal.SIGINT, epoch=2)
    assert run(*words)[0] == 130
    assert not list(tmp_path.glob("runs/**/*.json"))


def test_paired_differences_and_their_interval() -> None:
    stats = pytest.importorskip("scipy.stats")
    first = {1: 0.9, 2: 0.8, 3: 0.95, 4: 0.7}
    other = {1: 0.85, 2: 0.85, 3: 0.9}
    found = timeseries_reproduce.compare(first, other)
    gains = [0.05, -0.05, 0.05]
    expected = stats.ttest_1samp(gains, 0).confidence_interval(0.95)
    assert found["pairs"] == 3
    assert found["mean"] == pytest.approx(np.mean(gains))
    assert found["interval"] == pytest.approx([expected.low, expected.high])
    one = timeseries_reproduce.compare(
        first, {1: 0.8}
    )  # the other seeds have not run yet
    assert one == {"pairs": 1, "mean": pytest.approx(0.1), "interval": None}
    assert timeseries_reproduce.compare({1: 0.5}, {2: 0.25}) is None


def test_equal_means_share_a_rank() -> None:
    pytest.importorskip("scipy")
    means = {"ea-dc-t": 0.98, "dc-t": float(np.nextafter(0.98, 1))}  # of other sums
    models = {name: {"mean": mean} for name, mean in means.items()}
    datasets = {"A": {"metric": "accuracy", "models": models}}
    found = timeseries_reproduce._over_datasets(datasets)
    assert found["average_rank"] == {"ea-dc-t": 1.5, "dc-t": 1.5}


def test_summaries_rank_over_data_sets() -> None:
    pytest.importorskip("scipy")
    scores = {
        ("A", "ea-dc-t"): [0.9, 0.8],
        ("A", "dc-t"): [0.7, 0.6],
        ("A", "1nn-dtw"): [0.75],
        ("B", "ea-dc-t"): [0.5, 0.5],
        ("B", "dc-t"): [0.6, 0.6],
        ("B", "minirocket"): [0.9, 0.9],
        ("C", "ea-dc-t"): [2.0],
        ("C", "dc-t"): [4.0],
    }
    runs = [
        {
            "dataset": dataset,
            "model": model,
            "seed": seed + 1,
            "test": {"rmse" if dataset == "C" else "accuracy": value},
            "fit_seconds": 1.0,
        }
        for (dataset, model), values in scores.items()
        for seed, value in enumerate(values)
    ]
    found = timeseries_reproduce.summaries(runs)
    assert found["average_rank"] == {"ea-dc-t": 1.5, "dc-t": 1.5}
    assert found["relative_difference"] == pytest.approx(
        {"ea-dc-t": -1 / 3, "dc-t": 1 / 3}
    )
    one = found["datasets"]["A"]["models"]["dc-t"]
    assert one["mean"] == pytest.approx(0.65)
    assert one["difference"]["mean"] == pytest.approx(0.2)
    constant = found["datasets"]["A"]["models"]["1nn-dtw"]["difference"]
    assert constant["pairs"] == 2  # it draws nothing: its run stands for every seed
    assert constant["mean"] == pytest.approx(0.1)
    text = timeseries_reproduce.table(found)
    row = next(line for line in text.splitlines() if line.startswith("dc-t "))
    assert row.split()[:5] == ["dc-t", "65.00", "7.07", "60.00–70.00", "2"]


@pytest.mark.parametrize(
    ("words", "code", "parts"),
    [
        (["--models", "lstm"], 2, ["lstm", "ea-dc-t"]),
        (["--seeds", "0"], 2, ["--seeds 0", "1 or more"]),
        pytest.param(
            ["--datasets", "Waves", "--device", "cuda"],
            5,
            ["cuda:0 is not available"],
            marks=pytest.mark.skipif(len(ea.devices()) > 1, reason="there is a device"),
        ),
    ],
)
def test_mistakes(words, code, parts, run, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    found, _, told = run(*words)
    assert found == code, told
    for part in parts:
        assert part in told
