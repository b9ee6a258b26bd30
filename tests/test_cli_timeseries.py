"""``evolving-attention timeseries``: train, evaluate, pretrain, reproduce, by files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from series_data import levels, waves, write_ts

import evolving_attention as ea
from evolving_attention.cli import timeseries_reproduce as comparison
from evolving_attention.cli.main import app
from evolving_attention.cli.timeseries_results import align

pytest.importorskip("aeon", reason="no aeon (extra timeseries)")

without_gpu = pytest.mark.skipif(len(ea.devices()) > 1, reason="there is a device here")
SMALL = [
    *("--hidden_size", "16", "--num_blocks", "1", "--num_attention_heads", "2"),
    *("--intermediate_size", "16", "--n_epochs", "3", "--batch_size", "8"),
    *("--learning_rate", "0.01"),
]


@pytest.fixture
def files(tmp_path):
    """A data set of .ts files in a folder of data sets, and one to regress."""
    folder = tmp_path / "data" / "Waves"
    folder.mkdir(parents=True)
    write_ts(folder / "Waves_TRAIN.ts", *waves(40))
    write_ts(folder / "Waves_TEST.ts", *waves(20, seed=1, lengths=(12, 24)))
    write_ts(folder / "Levels_TRAIN.ts", *levels(30))
    write_ts(folder / "Levels_TEST.ts", *levels(10, seed=1))
    return folder


@pytest.fixture
def run(capsys, monkeypatch):
    """Run ``timeseries``: (exit code, stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "200")

    def command(*words):
        with pytest.raises(SystemExit) as left:
            app(["timeseries", *map(str, words)], prog_name="evolving-attention")
        shown = capsys.readouterr()
        return left.value.code or 0, shown.out, shown.err

    return command


def test_train_and_evaluate_by_name(files, run, tmp_path) -> None:
    out = tmp_path / "out"
    data = ["--dataset", "Waves", "--data_dir", files.parent]
    words = ["train", *data, *SMALL, "--seeds", 1, 2, "--output_dir", out]
    code, shown, told = run(*words)
    assert code == 0, told
    assert "40 series to train on, 20 to test on; 2 channels" in told
    assert [line.split()[0] for line in shown.splitlines()] == [
        "seed",
        "1",
        "2",
        "mean",
        "sd",
    ]
    record = json.loads((out / "seed-2" / "run.json").read_text())
    assert record["options"]["random_state"] == 2
    assert record["options"]["attention"] == {
        "kind": "evolving",
        "alpha": 0.5,
        "beta": 0.3,
    }
    assert len(record["history"]) == record["epochs"] == 3
    assert set(record["validation"]) == {"accuracy", "loss"}

    (out / "seed-1" / "model.safetensors").touch()  # not trained again
    before = (out / "seed-1" / "model.safetensors").stat().st_mtime_ns
    code, again, _ = run(*words, "--json")
    assert code == 0
    assert json.loads(again)["table"] + "\n" == shown
    assert (out / "seed-1" / "model.safetensors").stat().st_mtime_ns == before

    code, shown, _ = run(
        "evaluate", "--model_dir", out / "seed-2", *data, "--predictions", out / "p.csv"
    )
    assert code == 0
    accuracy = float(shown.split()[1])
    assert accuracy == pytest.approx(record["test"]["accuracy"], abs=1e-6)
    rows = [line.split(",") for line in (out / "p.csv").read_text().split()]
    assert rows[0] == ["index", "prediction", "target"]
    assert np.mean([p == t for _, p, t in rows[1:]]) == pytest.approx(accuracy)


def test_train_and_evaluate_files_of_values(files, run, tmp_path) -> None:
    out = tmp_path / "out"
    train, test = files / "Levels_TRAIN.ts", files / "Levels_TEST.ts"
    code, shown, told = run(
        "train",
        "--train_file",
        train,
        *SMALL,
        "--attention",
        "vanilla",
        "--output_dir",
        out,
    )
    assert code == 0, told
    assert "test" not in shown
    model = out / "seed-1"
    code, shown, _ = run(
        "evaluate", "--model_dir", model, "--test_file", test, "--json"
    )
    assert code == 0
    assert set(json.loads(shown)["test"]) == {"rmse", "mae", "series"}
    code, _, told = run(
        "evaluate", "--model_dir", model, "--test_file", files / "Waves_TEST.ts"
    )
    assert code == 3
    assert "its targets are labels, expected values for a TimeSeriesRegressor" in told


def test_another_run_in_the_same_folder(files, run, tmp_path) -> None:
    words = ["train", "--train_file", files / "Waves_TRAIN.ts", *SMALL]
    words += ["--output_dir", tmp_path / "out"]
    assert run(*words)[0] == 0
    code, _, told = run(*words, "--alpha", 0.2)
    assert code == 2
    assert "a run with other options (attention), expected the same" in told
    assert run(*words, "--alpha", 0.2, "--overwrite_output_dir")[0] == 0


@without_gpu
def test_the_device_is_part_of_a_run(files, run, tmp_path) -> None:
    words = ["train", "--train_file", files / "Waves_TRAIN.ts", *SMALL]
    words += ["--output_dir", tmp_path / "out"]
    assert run(*words, "--device", "auto")[0] == 0
    file = tmp_path / "out" / "seed-1" / "run.json"
    record = json.loads(file.read_text())
    assert record["options"].pop("device") == "cpu"
    file.write_text(json.dumps(record))  # as before there was a choice
    assert run(*words)[0] == 0
    record["options"]["device"] = "cuda:0"
    file.write_text(json.dumps(record))
    code, _, told = run(*words)
    assert code == 2
    assert "a run with other options (device), expected the same" in told


@without_gpu
@pytest.mark.parametrize("command", ["train", "evaluate", "pretrain", "reproduce"])
def test_a_gpu_where_there_is_none(command, files, run, tmp_path) -> None:
    file = files / "Waves_TRAIN.ts"
    words = {
        "evaluate": ["--model_dir", tmp_path, "--test_file", file],
        "reproduce": ["--datasets", "Waves", "--output_dir", tmp_path],
    }.get(command, ["--train_file", file, "--output_dir", tmp_path])
    code, _, told = run(command, *words, "--device", "cuda")
    assert code == 5
    assert "cuda:0 is not available" in told


def test_labels_unseen_in_training(files, run, tmp_path) -> None:
    X, y = waves(10, seed=2)
    y = np.where(y == "fast", "faster", y)
    other = write_ts(files / "other.ts", X, y)
    words = ["train", "--train_file", files / "Waves_TRAIN.ts", *SMALL]
    assert run(*words, "--output_dir", tmp_path / "out", "--max_length", 24)[0] == 0
    model = tmp_path / "out" / "seed-1"
    code, _, told = run("evaluate", "--model_dir", model, "--test_file", other)
    assert code == 3
    assert "other.ts[1] = faster: a label unseen in training, expected one of" in told


def test_pretrain_then_train(files, run, tmp_path) -> None:
    data = ["--train_file", files / "Waves_TRAIN.ts", "--max_length", 24]
    pre = tmp_path / "pre"
    code, shown, told = run("pretrain", *data, *SMALL, "--output_dir", pre)
    assert code == 0, told
    assert "validation loss" in shown
    assert json.loads((pre / "config.json").read_text())["max_length"] == 24
    code, _, told = run("pretrain", *data, *SMALL, "--output_dir", pre)
    assert code == 2
    assert "holds a pre-training" in told
    words = ["train", "--train_file", files / "Waves_TRAIN.ts", *SMALL]
    code, _, told = run(*words, "--pretrained", pre, "--output_dir", tmp_path / "out")
    assert code == 0, told


@pytest.mark.parametrize(
    ("words", "code", "parts"),
    [
        (["train"], 2, ["--output_dir is missing", "out/series"]),
        (["train", "--output_dir", "o"], 2, ["no data", "--train_file"]),
        (["train", "--output_dir", "o", "--dataset", "Nope"], 3, ["'Nope'", "aeon"]),
        (
            ["train", "--output_dir", "o", "--dataset", "A", "--train_file", "b.ts"],
            2,
            ["--dataset A", "drop --dataset"],
        ),
        (["train", "--output_dir", "o", "--data_dir", "d"], 2, ["--data_dir d"]),
        (["train", "--output_dir", "o", "--seeds", "x"], 2, ["--seeds x", "1 2 3"]),
        (["evaluate"], 2, ["--model_dir is missing"]),
        (["evaluate", "--model_dir", "nowhere"], 4, ["nowhere", "estimator.json"]),
        (["reproduce", "--models", "lstm"], 2, ["lstm", "ea-dc-t"]),
        (["reproduce", "--seeds", "0"], 2, ["--seeds 0", "1 or more"]),
        (["tran"], 2, ["tran", "--help"]),
        (["train", "--attention", "vanilla", "--alpha", "0.5"], 2, ["output_dir"]),
    ],
)
def test_mistakes(words, code, parts, run, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    found, _, told = run(*words)
    assert found == code, told
    for part in parts:
        assert part in told
    assert "Traceback" not in told


# --- reproduce ------------------------------------------------------------------------


@pytest.fixture
def tiny(monkeypatch):
    """The comparison with settings that take no time."""
    from evolving_attention.cli import timeseries_settings

    small = {
        "hidden_size": 16,
        "num_blocks": 1,
        "num_attention_heads": 2,
        "model_options": {"intermediate_size": 16},
        "n_epochs": 2,
        "validation_fraction": 0.0,
    }
    monkeypatch.setattr(timeseries_settings, "_COMMON", small)


def test_the_comparison_keeps_every_run(files, run, tiny, tmp_path) -> None:
    out = tmp_path / "runs"
    words = ["reproduce", "--datasets", "Waves", "--data_dir", files.parent]
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


def test_paired_differences_and_their_interval() -> None:
    stats = pytest.importorskip("scipy.stats")
    first = {1: 0.9, 2: 0.8, 3: 0.95, 4: 0.7}
    other = {1: 0.85, 2: 0.85, 3: 0.9}
    found = comparison.compare(first, other)
    gains = [0.05, -0.05, 0.05]
    expected = stats.ttest_1samp(gains, 0).confidence_interval(0.95)
    assert found["pairs"] == 3
    assert found["mean"] == pytest.approx(np.mean(gains))
    assert found["interval"] == pytest.approx([expected.low, expected.high])
    one = comparison.compare(first, {1: 0.8})  # the other seeds have not run yet
    assert one == {"pairs": 1, "mean": pytest.approx(0.1), "interval": None}
    assert comparison.compare({1: 0.5}, {2: 0.25}) is None


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
    found = comparison.summaries(runs)
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
    text = comparison.table(found)
    row = next(line for line in text.splitlines() if line.startswith("dc-t "))
    assert row.split()[:5] == ["dc-t", "65.00", "7.07", "60.00–70.00", "2"]


def test_columns_are_aligned() -> None:
    assert align([["a", "bb"], ["ccc", "d"]]) == "a    bb\nccc   d"
