"""Command lines of glue that people try: separators, freezing, early stopping, -h."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("evolving_attention._core", reason="the core is not built")

import evolving_attention as ea
from evolving_attention.cli import glue

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "bad", "film", ","]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with a WordPiece vocabulary, saved."""
    folder = tmp_path_factory.mktemp("model")
    ea.manual_seed(0)
    config = ea.BertConfig(
        vocab_size=len(VOCAB),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=16,
    )
    ea.BertModel(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(VOCAB))
    return folder


@pytest.fixture
def run(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command on files of its own: (exit code, stdout, stderr)."""
    for name, count in (("train", 24), ("dev", 8)):
        lines = [f"a {('good', 'bad')[i % 2]} film, a;{i % 2}" for i in range(count)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text;label", *lines]) + "\n")

    def command(*words: str, **options: Any) -> tuple[int, str, str]:
        given = {
            "model_name_or_path": model,
            "output_dir": tmp_path / "out",
            "train_file": tmp_path / "train.csv",
            "validation_file": tmp_path / "dev.csv",
            "delimiter": ";",
            "max_steps": 3,
            **options,
        }
        flags = [w for n, v in given.items() if v is not None for w in (f"--{n}", v)]
        with pytest.raises(SystemExit) as left:
            glue.main(["--do_train", "--do_eval", *words, *map(str, flags)])
        shown = capsys.readouterr()
        return int(left.value.code or 0), shown.out, shown.err

    return command


def weights(folder: Path) -> dict[str, bytes]:
    model = ea.AutoModelForSequenceClassification.from_pretrained(folder)
    return {name: np.asarray(p).tobytes() for name, p in model.named_parameters()}


def test_another_separator_is_seen_and_can_be_named(run: Any) -> None:
    code, _, err = run(delimiter=None)
    assert code == 3
    assert (
        "train.csv:1:1: no column 'label'; the only column is 'text;label': is the "
        "separator ';'? Use delimiter=';' (--delimiter ';')" in err
    )
    code, out, err = run()
    assert code == 0, err
    assert "eval_samples = 8" in out


def test_the_results_are_printed_once(run: Any) -> None:
    code, out, err = run("--json")
    assert code == 0, err
    assert json.loads(out)["eval_accuracy"] >= 0
    assert "eval_accuracy" not in err
    assert "loss" in err  # a short run shows it, by default
    code, out, err = run("--overwrite_output_dir")
    assert (out + err).count("eval_accuracy") == 1
    assert "*****" not in err


@pytest.mark.parametrize(
    ("freeze", "kept"),
    [
        ("base", r"bert\."),
        ("embeddings, bert.encoder.layer.1", r"bert\.(embeddings|encoder\.layer\.1)\."),
        ("classifier.bias", r"classifier\.bias"),
    ],
)
def test_what_is_frozen_stays(
    run: Any, model: Path, tmp_path: Path, freeze: str, kept: str
) -> None:
    code, _, err = run(freeze=freeze, learning_rate=0.01, num_train_epochs=1)
    assert code == 0, err
    ended = weights(tmp_path / "out")
    code, _, err = run("--overwrite_output_dir", freeze=freeze, max_steps=1)
    assert code == 0, err
    begun = weights(tmp_path / "out")
    same = {name for name in ended if ended[name] == begun[name]}
    assert same == {name for name in ended if re.match(kept, name)}


def test_early_stopping(run: Any, tmp_path: Path) -> None:
    options = {"learning_rate": 0, "max_steps": 30, "eval_strategy": "epoch"}
    code, _, err = run(early_stopping_patience=2, **options)
    assert code == 0, err
    state = json.loads((tmp_path / "out" / "trainer_state.json").read_text())
    assert state["global_step"] == 9  # the first of three epochs was the best
    assert state["stateful_callbacks"]["EarlyStoppingCallback"] == {"waited": 2}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"freeze": "layer.9"},
            "--freeze layer.9: no parameter of that name, expected",
        ),
        ({"freeze": "base,classifier"}, "base,classifier: no parameter is left to tra"),
        ({"early_stopping_patience": 0}, "--early_stopping_patience 0"),
        ({"early_stopping_patience": 2}, "add --eval_strategy epoch"),
        ({"delimiter": ";;"}, "delimiter=';;', expected one character"),
        (
            {"evaluation_strategy": "epoch"},
            "error: --evaluation_strategy epoch is not supported: it was renamed; use "
            "--eval_strategy",
        ),
        (
            {"fp16": True},
            "error: --fp16 is not supported: there are no float16 kernels; use --bf16",
        ),
    ],
)
def test_mistakes(run: Any, options: dict[str, Any], says: str) -> None:
    code, out, err = run(**options)
    assert (code, out) == (2, "")
    assert says in err


@pytest.mark.parametrize("words", ["", "glue", "glue-submit", "timeseries train"])
def test_h_is_help(words: str) -> None:
    command = [sys.executable, "-m", "evolving_attention", *words.split()]
    short, long = (
        subprocess.run([*command, flag], capture_output=True, text=True, timeout=60)
        for flag in ("-h", "--help")
    )
    assert short.returncode == 0, short.stderr
    assert short.stdout == long.stdout
    assert "Usage" in short.stdout
