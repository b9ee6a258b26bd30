"""The comparison of time-series models: its record and tables, and the search."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("aeon", reason="no aeon (extra timeseries)")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import timeseries, timeseries_search

from evolving_attention.cli.timeseries_settings import MODELS, settings_of
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
