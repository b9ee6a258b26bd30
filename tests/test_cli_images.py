"""``evolving-attention image``: train, evaluate and predict on a folder of pictures."""

from __future__ import annotations

import csv
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_data import folder_of, stripes
from series_data import signal_sender
from typer.testing import CliRunner

from evolving_attention.cli.main import app

pytest.importorskip("sklearn", reason="needs scikit-learn (extra: image)")
pytest.importorskip("PIL", reason="needs Pillow (extra: image)")


def run(*words: object) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["image", *map(str, words), "--json"])
    assert done.exit_code == 0, done.output + str(done.exception)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_commands(tmp_path: Path) -> None:
    root, out = folder_of(tmp_path / "train", 24), tmp_path / "out"
    words = [
        *("--train_dir", root, "--test_dir", root, "--output_dir", out),
        *("--hidden_size", 16, "--num_hidden_layers", 2, "--num_attention_heads", 2),
        *("--n_epochs", 2, "--batch_size", 16, "--verbose", "false"),
        *("--attention", "evolving", "--alpha", 0.2),
    ]
    trained = run("train", *words)
    assert trained["classes"] == ["a", "b"]
    config = json.loads((out / "config.json").read_text())
    assert config["attention"]["alpha"] == 0.2
    assert config["attention"]["beta"] == 0.3
    tested = run("evaluate", "--model_dir", out, "--test_dir", root)
    assert tested["test"] == trained["test"]
    assert sum(map(sum, tested["test"]["confusion"])) == 24
    file = tmp_path / "new" / "predictions.csv"
    shown = ("--model_dir", out, "--input_dir", root / "a", "--output_file", file)
    found = run("predict", *shown)
    with file.open(newline="") as lines:
        header, *rows = csv.reader(lines)
    assert header == ["picture", "class", "a", "b"]
    assert found["pictures"] == len(rows) == 12
    assert rows[0][0] == str(root / "a" / "00.png")
    assert sum(map(float, rows[0][2:])) == pytest.approx(1.0, abs=1e-5)
    os.rename(root / "a" / "00.png", root / "a" / "caf\udce9.png")  # not UTF-8
    run("predict", *shown)
    with file.open(newline="", errors="surrogateescape") as lines:
        *others, renamed = list(csv.reader(lines))[1:]
    assert renamed == [str(root / "a" / "caf\udce9.png"), *rows[0][1:]]
    assert others == rows[1:]
    os.rename(root / "a" / "caf\udce9.png", root / "a" / "00.png")
    (root / "a" / "04.png").write_bytes(b"")
    for more, reason in (((), "04.png"), (("--on_error", "ignore"), "ignore")):
        words = ["image", "predict", *map(str, shown), *more]
        done = CliRunner().invoke(app, words)
        assert done.exit_code in (2, 3)
        assert reason in done.output
    with pytest.warns(UserWarning, match="1 of 12 pictures cannot be used"):
        left = run("predict", *shown, "--on_error", "skip")
    assert [Path(name).name for name, _ in left["skipped"]] == ["04.png"]
    with file.open(newline="") as lines:
        assert list(csv.reader(lines)) == [header, *rows[:2], *rows[3:]]


def test_the_crops_of_imagenet(tmp_path: Path) -> None:
    root, out = folder_of(tmp_path / "train", 24, side=12), tmp_path / "out"
    words = [
        *("--train_dir", root, "--test_dir", root, "--output_dir", out),
        *("--hidden_size", 16, "--num_hidden_layers", 1, "--num_attention_heads", 2),
        *("--n_epochs", 2, "--batch_size", 16, "--verbose", "false"),
        *("--resized_crop", 0.05, "--flip", "true", "--image_size", 8),
    ]
    trained = run("train", *words)
    record = json.loads((out / "estimator.json").read_text())
    assert record["options"]["resized_crop"] == 0.05
    tested = run("evaluate", "--model_dir", out, "--test_dir", root)
    assert tested["test"] == trained["test"]  # the loaded model sees the centres too
    record["centred"] = False
    (out / "estimator.json").write_text(json.dumps(record))
    whole = run("evaluate", "--model_dir", out, "--test_dir", root)
    assert whole["test"]["loss"] != trained["test"]["loss"]


def test_a_test_set_is_checked_before_training(tmp_path: Path) -> None:
    root, out = folder_of(tmp_path / "train"), tmp_path / "out"
    other = folder_of(tmp_path / "other")
    (other / "b").rename(other / "c")
    X, y = stripes(4)
    np.savez(tmp_path / "c.npz", X=X, y=np.where(y == "b", "c", y))
    np.savez(tmp_path / "no.npz", X=X)
    np.savez(tmp_path / "none.npz", y=y)
    np.savez(tmp_path / "few.npz", X=X, y=y[:3])
    np.savez(tmp_path / "grey.npz", X=X, y=y)
    np.savez(tmp_path / "scaled.npz", X=np.stack([X] * 3, axis=3) / 255, y=y)
    bad = folder_of(tmp_path / "bad")
    (bad / "b" / "03.png").write_bytes(b"no picture")
    for test, text in (
        (tmp_path / "nowhere", "is no folder"),
        (other, "a class unseen in training"),
        (root / "a", "expected a folder of pictures for each class"),
        (tmp_path / "c.npz", "= c: a label unseen in training"),
        (tmp_path / "no.npz", "has no array y"),
        (tmp_path / "none.npz", "has the arrays y, expected X"),
        (tmp_path / "few.npz", "3 targets for 4 pictures"),
        (tmp_path / "grey.npz", "1 channels, expected 3 as in"),
        (tmp_path / "scaled.npz", "expected integers from 0 to 255 as in training"),
        (bad, "03.png"),
    ):
        words = ["--train_dir", root, "--test_dir", test, "--output_dir", out]
        done = CliRunner().invoke(app, ["image", "train", *map(str, words)])
        assert done.exit_code == 3, done.output
        assert text in " ".join(done.output.split())
        assert not list(out.iterdir())


def test_another_network_with_its_recipe(tmp_path: Path) -> None:
    root, out = folder_of(tmp_path / "train", 12), tmp_path / "out"
    sizes = {"hidden_sizes": [8, 8], "depths": [1, 2], "num_attention_heads": 2}
    words = [
        *("--train_dir", root, "--output_dir", out, "--architecture", "pa_cifar_net"),
        *("--model_options", json.dumps(sizes), "--optimizer", "sgd"),
        *("--lr_schedule", "cosine_with_restarts", "--label_smoothing", 0.1),
        *("--lr_schedule_options", '{"num_cycles": 2}', "--cutout", 2),
        *("--n_epochs", 2, "--batch_size", 6, "--verbose", "false"),
    ]
    run("train", *words)
    config = json.loads((out / "config.json").read_text())
    assert config["model_type"] == "cifar_net"
    assert config["attention"] == {"kind": "predictive", "alpha": 0.01, "num_layers": 1}
    record = json.loads((out / "estimator.json").read_text())
    assert record["options"]["lr_schedule_options"] == {"num_cycles": 2}
    assert run("evaluate", "--model_dir", out, "--test_dir", root)["test"]["pictures"]
    wrong = ["image", "train", *map(str, words), "--model_options", "[1]"]
    done = CliRunner().invoke(app, wrong)
    assert done.exit_code != 0
    assert "expected a JSON object" in done.output


SMALL = [
    *("--hidden_size", 16, "--num_hidden_layers", 1, "--num_attention_heads", 2),
    *("--n_epochs", 3, "--batch_size", 16, "--verbose", "false"),
]


def test_another_run_in_the_same_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    X, y = stripes(24)
    np.savez(tmp_path / "train.npz", X=X, y=y)
    words = ["--train_dir", tmp_path / "train.npz", "--output_dir", out, *SMALL]
    run("train", *words)
    weights = (out / "evolving_model.safetensors").read_bytes()
    run("train", *words)
    assert (out / "evolving_model.safetensors").read_bytes() == weights
    other = ["image", "train", *map(str, words), "--n_epochs", "1"]
    done = CliRunner().invoke(app, other)
    assert done.exit_code == 2
    assert "runs with other options (--n_epochs), expected" in done.output
    assert (out / "evolving_model.safetensors").read_bytes() == weights
    assert CliRunner().invoke(app, [*other, "--overwrite_output_dir"]).exit_code == 0
    assert (out / "evolving_model.safetensors").read_bytes() != weights
    np.savez(tmp_path / "train.npz", X=X, y=y[::-1])
    done = CliRunner().invoke(app, other)
    assert done.exit_code == 2
    assert "(content of --train_dir), expected the same" in done.output


@pytest.mark.parametrize("option", ["train_dir", "test_dir"])
def test_other_pictures_in_a_folder_are_refused(tmp_path: Path, option: str) -> None:
    """Results of earlier pictures are not kept for others under the same path."""
    for name in ("train_dir", "test_dir"):
        folder_of(tmp_path / name, 12)
    words = ["--train_dir", tmp_path / "train_dir", "--test_dir", tmp_path / "test_dir"]
    words += ["--output_dir", tmp_path / "out", *SMALL, "--seeds", 1]
    first = run("train", *words)
    (tmp_path / option / "Thumbs.db").write_text("not read")
    assert run("train", *words) == first
    folder = tmp_path / option
    for old, new in ("ac", "ba", "cb"):  # every label is another one
        (folder / old).rename(folder / new)
    done = CliRunner().invoke(app, ["image", "train", *map(str, words)])
    assert done.exit_code == 2
    assert f"(content of --{option}), expected the same" in done.output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_saves_what_it_has(
    tmp_path: Path, monkeypatch: Any, recwarn: Any, number: signal.Signals
) -> None:
    root, out = folder_of(tmp_path / "train", 24), tmp_path / "out"
    signal_sender(monkeypatch)(number, epoch=3)
    out.mkdir()
    (out / "results.json").write_text("{}")  # of the model that is replaced
    words = ["image", "train", "--train_dir", root, "--output_dir", out, *SMALL]
    words.append("--overwrite_output_dir")
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == 128 + number, done.output
    assert not (out / "results.json").exists()
    assert f"{number.name} after 2 of 3 epochs: the best so far, epoch" in done.output
    assert [one for one in recwarn if "SIG" in str(one.message)] == []
    run("evaluate", "--model_dir", out, "--test_dir", root)


def test_the_output_is_not_the_pictures(tmp_path: Path) -> None:
    file = tmp_path / "pictures.npz"
    np.savez(file, X=stripes(4)[0])
    data = file.read_bytes()
    words = ["image", "predict", "--model_dir", "x", "--input_dir", file]
    words = [*map(str, words), "--output_file", str(file)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "expected another file than --input_dir" in " ".join(done.output.split())
    assert file.read_bytes() == data


def test_a_file_that_is_no_archive(tmp_path: Path) -> None:
    file = tmp_path / "pictures.npz"
    file.write_text("a,b\n1,2\n")
    words = ["--train_dir", file, "--output_dir", tmp_path / "out", *SMALL]
    done = CliRunner().invoke(app, ["image", "train", *map(str, words)])
    assert done.exit_code == 3
    assert "is no .npz file, expected an npz file" in " ".join(done.output.split())
