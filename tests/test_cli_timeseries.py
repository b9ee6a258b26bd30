"""``evolving-attention timeseries``: train, evaluate and pretrain, on files."""

from __future__ import annotations

import csv
import json
import signal
from typing import Any

import numpy as np
import pytest
from helpers_commands import runner
from series_data import levels, signal_sender, waves, write_ts

import evolving_attention as ea
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
    """A folder with .ts files of a classification and of a regression data set."""
    folder = tmp_path / "data" / "Waves"
    folder.mkdir(parents=True)
    write_ts(folder / "Waves_TRAIN.ts", *waves(40))
    write_ts(folder / "Waves_TEST.ts", *waves(20, seed=1, lengths=(12, 24)))
    write_ts(folder / "Levels_TRAIN.ts", *levels(30))
    write_ts(folder / "Levels_TEST.ts", *levels(10, seed=1))
    return folder


@pytest.fixture
def run(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs ``timeseries``; returns (exit code, stdout, stderr)."""
    return runner(capsys, monkeypatch, "timeseries")


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
        "kernel_size": 3,
        "conv_init": "fan_in",
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


def long_table(file, X, y, label="activity"):
    """Writes a table with one row per time step of these series."""
    lines = [f"run,time,b,a,{label}" if label else "run,time,b,a"]
    for i, (one, target) in enumerate(zip(X, y, strict=True)):
        for t, (b, a) in enumerate(one.T):
            lines.append(f"r{i},{t},{b:.6f},{a:.6f}" + (f",{target}" if label else ""))
    file.write_text("\n".join(lines) + "\n")
    return file


TABLE = ["--id_column_name", "run"]


def test_tables_are_trained_evaluated_and_predicted(files, run, tmp_path) -> None:
    X, y = waves(40)
    new, truth = waves(12, seed=1, lengths=(12, 24))
    train = long_table(tmp_path / "train.csv", X, y)
    test = long_table(tmp_path / "test.csv", new, truth)
    named = [*TABLE, "--label_column_name", "activity"]
    words = ["train", "--train_file", train, "--test_file", test, *SMALL, *named]
    code, _, told = run(*words, "--output_dir", tmp_path / "out")
    assert code == 0, told
    assert "steps by 'time', target 'activity'" in told
    model = tmp_path / "out" / "seed-1"
    code, shown, _ = run(
        "evaluate", "--model_dir", model, "--test_file", test, *named, "--json"
    )
    assert json.loads(shown)["test"]["series"] == 12
    file = long_table(tmp_path / "new.csv", new, truth, label=None)
    out = tmp_path / "found" / "p.csv"
    out.parent.mkdir()
    predict = ["predict", "--model_dir", model, "--output_file", out]
    code, shown, told = run(*predict, "--input_file", file, *TABLE)
    assert code == 0, told
    assert "series" in shown
    rows = [line.split(",") for line in out.read_text().splitlines()]
    assert rows[0] == ["id", "prediction", "probability_fast", "probability_slow"]
    estimator = ea.TimeSeriesClassifier.load(model)
    rounded = [np.round(one, 6) for one in new]
    assert [row[0] for row in rows[1:]] == [f"r{i}" for i in range(12)]
    assert [row[1] for row in rows[1:]] == estimator.predict(rounded).tolist()
    odds = np.array([row[2:] for row in rows[1:]], dtype=float)
    np.testing.assert_allclose(odds, estimator.predict_proba(rounded), rtol=1e-7)


def test_predict_series_without_labels(files, run, tmp_path) -> None:
    text = (files / "Levels_TEST.ts").read_text().splitlines()
    lines = [line.rpartition(":")[0] if ":" in line else line for line in text]
    bare = tmp_path / "bare.ts"
    bare.write_text("\n".join(lines).replace("@targetLabel true", "@classLabel false"))
    words = ["train", "--train_file", files / "Levels_TRAIN.ts", *SMALL]
    assert run(*words, "--output_dir", tmp_path / "out")[0] == 0
    out = tmp_path / "p.csv"
    predict = ["predict", "--model_dir", tmp_path / "out" / "seed-1"]
    code, shown, told = run(
        *predict, "--input_file", bare, "--output_file", out, "--json"
    )
    assert code == 0, told
    assert json.loads(shown)["series"] == 10
    rows = [line.split(",") for line in out.read_text().splitlines()]
    assert rows[0] == ["index", "prediction"]
    assert [row[0] for row in rows[1:]] == [str(i) for i in range(10)]
    assert np.isfinite([float(row[1]) for row in rows[1:]]).all()
    code, _, told = run(*words[:1], "--train_file", bare, "--output_dir", out)
    assert code == 3
    assert "no targets" in told
    pre = ["pretrain", "--train_file", bare, *SMALL, "--output_dir", tmp_path / "pre"]
    assert run(*pre)[0] == 0  # pre-training needs no targets


def test_another_run_in_the_same_folder(files, run, tmp_path) -> None:
    words = ["train", "--train_file", files / "Waves_TRAIN.ts", *SMALL]
    words += ["--output_dir", tmp_path / "out"]
    assert run(*words)[0] == 0
    file = tmp_path / "out" / "seed-1" / "run.json"
    record = json.loads(file.read_text())
    del record["options"]["attention"]["kernel_size"]  # as earlier versions wrote it
    file.write_text(json.dumps(record))
    began = file.stat().st_mtime_ns
    assert run(*words)[0] == 0
    assert file.stat().st_mtime_ns == began
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
    file.write_text(json.dumps(record))  # as before the option existed
    assert run(*words)[0] == 0
    record["options"]["device"] = "cuda:0"
    file.write_text(json.dumps(record))
    code, _, told = run(*words)
    assert code == 2
    assert "a run with other options (device), expected the same" in told


@without_gpu
@pytest.mark.parametrize("command", ["train", "evaluate", "pretrain"])
def test_a_gpu_where_there_is_none(command, files, run, tmp_path) -> None:
    file = files / "Waves_TRAIN.ts"
    words = {
        "evaluate": ["--model_dir", tmp_path, "--test_file", file],
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


@pytest.fixture
def send(monkeypatch):
    return signal_sender(monkeypatch)


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("label", r"other.ts[1] = faster: a label unseen in training, expected one of"),
        ("length", r"other.ts[0]: 24 time steps, expected at most 20"),
        ("gap", r"is NaN, expected a"),
        ("folder", "out: "),
    ],
)
def test_what_is_needed_after_training_is_checked_before(
    mistake, said, files, run, tmp_path, monkeypatch
) -> None:
    X, y = waves(10, seed=2, lengths=(12, 20))
    words = ["--max_length", 20]
    if mistake == "label":
        y = np.where(y == "fast", "faster", y)
    elif mistake == "length":
        X[0] = np.ones((2, 24))
    elif mistake == "gap":
        words += ["--missing", "refuse"]
        X[3][1, 2] = np.nan
    else:
        (tmp_path / "out").write_text("a file")
    monkeypatch.setattr(ea.TimeSeriesClassifier, "fit", None)  # it is never reached
    other = write_ts(files / "other.ts", X, y)
    code, _, told = run(
        *("train", "--train_file", files / "Waves_TRAIN.ts", "--test_file", other),
        *(*SMALL, *words, "--output_dir", tmp_path / "out"),
    )
    assert code in (1, 3), told
    assert said in told


@pytest.mark.parametrize("longer", ["cut", "resample"])
def test_longer_series_on_the_command_line(longer, files, run, tmp_path) -> None:
    test = ["--test_file", files / "Waves_TEST.ts"]
    words = ["train", "--train_file", files / "Waves_TRAIN.ts", *test, *SMALL]
    words += ["--max_length", 15, "--output_dir", tmp_path / "out"]
    assert run(*words)[0] == 3
    code, _, told = run(*words, "--longer", longer)
    assert code == 0, told
    words = ["evaluate", "--model_dir", tmp_path / "out" / "seed-1", *test]
    assert run(*words)[0] == 0
    code, _, told = run(*words, "--longer", "error")
    assert code == 3
    assert "expected at most 15" in told
    code, _, told = run(*words, "--longer", "trim")
    assert code == 2
    assert "--longer trim: expected one of error, cut, resample" in told


def test_a_model_is_saved_before_it_is_scored(
    files, run, tmp_path, monkeypatch
) -> None:
    out = tmp_path / "out"
    words = ["train", "--dataset", "Waves", "--data_dir", files.parent, *SMALL]
    words += ["--output_dir", out]
    with monkeypatch.context() as patch:
        patch.setattr("evolving_attention.cli.timeseries.scores", None)
        assert run(*words)[0] != 0
    monkeypatch.setattr(ea.TimeSeriesClassifier, "fit", None)  # not trained again
    code, _, told = run(*words)
    assert code == 0, told
    assert "test" in json.loads((out / "seed-1" / "run.json").read_text())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_saves_what_it_has(
    number, files, run, send, tmp_path
) -> None:
    out = tmp_path / "out"
    data = ["--dataset", "Waves", "--data_dir", files.parent]
    words = ["train", *data, *SMALL, "--seeds", 1, 2, "--output_dir", out]
    out.mkdir()
    (out / "results.json").write_text("{}")  # of a model that is replaced
    send(number, epoch=3)
    code, _, told = run(*words)
    assert code == 128 + number
    assert f"{number.name} after 2 of 3 epochs: the best so far, epoch" in told
    assert "UserWarning" not in told
    assert [file.name for file in out.iterdir()] == ["seed-1"]
    assert run("evaluate", "--model_dir", out / "seed-1", *data)[0] == 0
    send()
    assert run(*words)[0] == 0
    assert json.loads((out / "seed-1" / "run.json").read_text())["epochs"] == 3


def test_an_interrupted_pretraining_saves_what_it_has(
    files, run, send, tmp_path
) -> None:
    words = ["pretrain", "--train_file", files / "Waves_TRAIN.ts", *SMALL]
    words += ["--output_dir", tmp_path / "pre"]
    send(signal.SIGTERM, epoch=3)
    code, _, told = run(*words)
    assert code == 128 + signal.SIGTERM
    assert "SIGTERM after 2 of 3 epochs" in told
    assert (tmp_path / "pre" / "model.safetensors").is_file()
    send()
    assert run(*words)[0] == 0


def test_pretrain_then_train(files, run, tmp_path) -> None:
    data = ["--train_file", files / "Waves_TRAIN.ts", "--max_length", 24]
    pre = tmp_path / "pre"
    kind = ["--attention", "predictive"]
    code, shown, told = run("pretrain", *data, *SMALL, *kind, "--output_dir", pre)
    assert code == 0, told
    assert "validation loss" in shown
    assert json.loads((pre / "config.json").read_text())["max_length"] == 24
    code, _, told = run("pretrain", *data, *SMALL, "--output_dir", pre)
    assert code == 2
    assert "holds a pre-training" in told
    words = ["train", "--train_file", files / "Waves_TRAIN.ts", *SMALL]
    out = tmp_path / "out"
    code, _, told = run(*words, "--pretrained", pre, "--output_dir", out)
    assert code == 0, told
    (run_folder,) = out.glob("seed-*")
    config = json.loads((run_folder / "config.json").read_text())
    assert config["attention"]["kind"] == "predictive"


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
        (["predict", "--model_dir", "m"], 2, ["--input_file is missing", ".csv"]),
        (
            ["train", "--output_dir", "o", "--train_file", "a.ts", "--delimiter", ";"],
            2,
            ["--delimiter ;: expected a table, not a.ts", "leave it out"],
        ),
        (["evaluate", "--model_dir", "nowhere"], 4, ["nowhere", "estimator.json"]),
        (["tran"], 2, ["tran", "--help"]),
        (
            ["train", "--attention", "vanilla", "--alpha", "0.5"],
            2,
            ["no option 'alpha'"],
        ),
    ],
)
def test_mistakes(words, code, parts, run, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    found, _, told = run(*words)
    assert found == code, told
    for part in parts:
        assert part in told
    assert "Traceback" not in told


def test_columns_are_aligned() -> None:
    assert align([["a", "bb"], ["ccc", "d"]]) == "a    bb\nccc   d"


def test_seeds_of_two_models_are_compared(files, run, tmp_path) -> None:
    data = ["--dataset", "Waves", "--data_dir", files.parent]
    words = ["train", *data, *SMALL, "--n_epochs", 1, "--seeds", 1, 2]
    code, _, told = run(*words, "--alpha", 0, "--output_dir", tmp_path / "plain")
    assert code == 0, told
    compare = ["--compare", tmp_path / "plain"]
    code, shown, told = run(*words, *compare, "--output_dir", tmp_path / "evolving")
    assert code == 0, told
    folders = (tmp_path / "evolving", tmp_path / "plain")
    mine, theirs = (json.loads((f / "results.json").read_text()) for f in folders)
    assert shown.strip() == mine["table"]
    for name in ("validation_loss", "test_accuracy"):
        parts, key = name.split("_")
        scores = [[run[parts][key] for run in one["runs"]] for one in (mine, theirs)]
        gain = np.subtract(*scores)
        found = mine["comparison"][name]
        assert found["mean"] == pytest.approx(gain.mean())
        assert found["sd"] == pytest.approx(gain.std(ddof=1))
        assert mine["summary"][name]["mean"] == pytest.approx(np.mean(scores[0]))


def test_seeds_of_pretraining(files, run, tmp_path) -> None:
    """Each seed gives the bits of its own command, and is not trained twice."""
    words = ["pretrain", "--train_file", files / "Waves_TRAIN.ts", *SMALL]
    words += ["--n_epochs", 1]
    out, alone = tmp_path / "several", tmp_path / "alone"
    code, shown, told = run(*words, "--seeds", 1, 2, "--output_dir", out)
    assert code == 0, told
    results = json.loads((out / "results.json").read_text())
    assert shown.strip() == results["table"]
    assert [run["seed"] for run in results["runs"]] == [1, 2]
    assert results["summary"]["validation_loss"]["seeds"] == 2
    code, _, told = run(*words, "--seeds", 2, "--output_dir", alone)
    assert code == 0, told
    weights = "model.safetensors"
    assert (out / "seed-2" / weights).read_bytes() == (alone / weights).read_bytes()
    before = (out / "seed-1" / "run.json").read_bytes()
    words += ["--compare", out, "--output_dir", out]
    code, shown, told = run(*words, "--seeds", 1, 2)
    assert code == 0, told
    assert (out / "seed-1" / "run.json").read_bytes() == before
    code, _, told = run(*words, "--seeds", 1, 2, "--mask_ratio", 0.3)
    assert (code, "with other options (--mask_ratio)" in told) == (2, True), told
    code, _, told = run(*words, "--pretrained", alone)
    assert (code, "no other pre-training to start from" in told) == (2, True)


def test_columns_in_another_order_are_refused(run, tmp_path) -> None:
    def write(name, *columns):
        X, y = waves(16)
        lines = [",".join(["", "id", "time", *columns, "label"])]
        for i, (one, label) in enumerate(zip(X, y, strict=True)):
            for t, (a, b) in enumerate(one.T):
                cells = {"a": a, "b": b}
                values = [f"{cells[c]:.4f}" for c in columns]
                lines.append(
                    ",".join([str(len(lines)), f"s{i}", str(t), *values, label])
                )
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        return tmp_path / name

    out = tmp_path / "out"
    words = ["train", "--train_file", write("train.csv", "a", "b"), *SMALL]
    code, _, told = run(*words, "--output_dir", out)
    assert (code, "2 channels" in told) == (0, True), told  # without pandas' index
    model, other = ["--model_dir", out / "seed-1"], write("other.csv", "b", "a")
    file = tmp_path / "new" / "found.csv"  # its folder is created
    for words in (
        ["predict", *model, "--input_file", other, "--output_file", file],
        ["evaluate", *model, "--test_file", other, "--predictions", file],
    ):
        code, _, told = run(*words)
        assert (code, "channels b, a, expected a, b" in told) == (3, True), told
    code, _, told = run(
        *("predict", *model, "--input_file", tmp_path / "train.csv"),
        *("--output_file", file),
    )
    assert (code, len(file.read_text().splitlines())) == (0, 17), told


def test_other_data_in_the_folder_of_a_run(files, run, tmp_path) -> None:
    """Other training data are refused, and another test part is scored anew."""
    train, test = tmp_path / "train.ts", tmp_path / "test.ts"
    X, y = waves(40)
    write_ts(train, X, y)
    write_ts(test, *waves(20, seed=1))
    words = ["train", "--train_file", train, *SMALL, "--output_dir", tmp_path / "out"]
    record = tmp_path / "out" / "seed-1" / "run.json"
    assert run(*words, "--test_file", test)[0] == 0
    first = json.loads(record.read_text())
    assert set(first["content"]) == {"train", "test"}
    write_ts(test, *waves(8, seed=2))
    assert run(*words, "--test_file", test)[0] == 0
    second = json.loads(record.read_text())
    assert (first["test"]["series"], second["test"]["series"]) == (20, 8)
    assert first["history"] == second["history"]
    write_ts(train, X, y[::-1])
    code, _, told = run(*words, "--test_file", test)
    assert (code, "a run on other training data, expected the same" in told) == (2, 1)
    del second["content"]  # as earlier versions wrote it
    record.write_text(json.dumps(second))
    assert run(*words, "--test_file", test)[0] == 0
    assert json.loads(record.read_text()) == second
    assert run(*words, "--overwrite_output_dir")[0] == 0


def test_other_series_to_pretrain_on(files, run, tmp_path) -> None:
    """Labels, which pre-training does not use, may change; series may not."""
    train, (X, y) = tmp_path / "train.ts", waves(40)
    write_ts(train, X, y)
    words = ["pretrain", "--train_file", train, *SMALL, "--n_epochs", 1]
    words += ["--seeds", 1, 2, "--output_dir", tmp_path / "out"]
    assert run(*words)[0] == 0
    write_ts(train, X, y[::-1])
    assert run(*words)[0] == 0
    write_ts(train, [one + 1 for one in X], y)
    code, _, told = run(*words)
    assert (code, "a run on other training data, expected" in told) == (2, True), told


@pytest.mark.parametrize("text", ["broken{", "[]", "{}", '{"options": []}'])
@pytest.mark.parametrize("command", ["train", "pretrain"])
def test_a_damaged_record_is_named(command, text, files, run, tmp_path) -> None:
    folder = tmp_path / "seed-1"
    folder.mkdir()
    for place in (folder, tmp_path):
        (place / "run.json").write_text(text)
    seeds = (1,) if command == "train" or text in ("broken{", "[]") else (1, 2)
    code, _, told = run(
        *(command, "--train_file", files / "Waves_TRAIN.ts", *SMALL),
        *("--seeds", *seeds, "--output_dir", tmp_path),
    )
    assert (code, "remove the file to run again" in told) == (3, True), told


def test_predictions_of_labels_with_commas(run, tmp_path) -> None:
    X, y = waves(16)
    labels = np.where(y == "slow", '"p,1"', "fast")
    file, out = long_table(tmp_path / "a.csv", X, labels), tmp_path / "out"
    named = [*TABLE, "--label_column_name", "activity"]
    words = ["train", "--train_file", file, *SMALL, *named, "--output_dir", out]
    code, _, told = run(*words)
    assert code == 0, told
    model, found = out / "seed-1", tmp_path / "p.csv"
    words = ["evaluate", "--model_dir", model, "--test_file", file, *named]
    code, _, told = run(*words, "--predictions", found)
    assert code == 0, told
    with found.open(newline="") as handle:
        rows = list(csv.reader(handle))
    assert rows[0] == ["id", "prediction", "target"]
    assert [row[0] for row in rows[1:]] == [f"r{i}" for i in range(16)]
    rounded = [np.round(one, 6) for one in X]
    expected = ea.TimeSeriesClassifier.load(model).predict(rounded).tolist()
    assert [row[1] for row in rows[1:]] == expected
    assert [row[2] for row in rows[1:]] == np.where(y == "slow", "p,1", "fast").tolist()


def test_the_output_is_not_the_input(files, run, tmp_path) -> None:
    file = files / "Waves_TEST.ts"
    data, link = file.read_bytes(), tmp_path / "link.csv"
    link.symlink_to(file)
    model = ("--model_dir", "x")
    for words, option, other in (
        (("predict", "--input_file", file), "output_file", "input_file"),
        (("evaluate", "--test_file", file), "predictions", "test_file"),
    ):
        for out in (file, link):
            code, _, told = run(*words, *model, f"--{option}", out)
            expected = f"--{option} {out}: expected another file than --{other}"
            assert (code, expected in told) == (2, True), told
    assert file.read_bytes() == data


def test_the_folder_of_the_models_is_shown(files, run, tmp_path) -> None:
    out, test = tmp_path / "out", ["--test_file", files / "Waves_TEST.ts"]
    words = ["train", "--train_file", files / "Waves_TRAIN.ts", *SMALL]
    code, _, told = run(*words, "--max_length", 24, "--output_dir", out)
    assert code == 0, told
    assert f", saved in {out / 'seed-1'}\n" in told
    code, _, told = run("evaluate", "--model_dir", out, *test)
    assert code == 4
    assert f"give one of the folders in it that have one: {out / 'seed-1'}" in told
