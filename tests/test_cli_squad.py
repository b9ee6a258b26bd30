"""``evolving-attention squad``: train, evaluate and predict, from files to files."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from helpers_commands import runner
from helpers_squad import document, folder_of, write

import evolving_attention as ea
from evolving_attention.training.callbacks import TrainerCallback

SMALL = [
    *("--max_seq_length", 24, "--doc_stride", 6, "--max_answer_length", 3),
    *("--per_device_train_batch_size", 16, "--logging_steps", 2),
    *("--learning_rate", "5e-3", "--num_train_epochs", 2),
]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def run(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs ``squad``; returns (exit code, stdout, stderr)."""
    return runner(capsys, monkeypatch, "squad")


def data(root: Path, count: int = 24, **options: Any) -> list[Any]:
    """Writes training and validation files; returns the options that name them."""
    train = write(root / "train.json", document(count, **options))
    held_out = write(root / "dev.json", document(6, seed=1, **options))
    return ["--train_file", train, "--validation_file", held_out]


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def test_train_evaluate_and_predict(run: Any, tmp_path: Path):
    base = folder_of(tmp_path / "base", attention="evolving")
    files = data(tmp_path, unanswerable=True)
    out = tmp_path / "out"
    negative = "--version_2_with_negative"
    code, shown, told = run(
        *("train", "--model_name_or_path", base, *files, *SMALL, negative),
        *("--output_dir", out, "--attention", "evolving", "--json"),
    )
    assert code == 0, told
    assert "train: 48 questions in" in told
    results = json.loads(shown)
    names = {"eval_exact", "eval_f1", "eval_total", "eval_HasAns_f1", "eval_NoAns_f1"}
    names |= {"eval_best_f1", "eval_best_f1_thresh", "eval_loss", "train_loss"}
    assert names <= results.keys()
    assert results["eval_total"] == 12
    assert read(out / "eval_results.json")["eval_f1"] == results["eval_f1"]
    texts = read(out / "eval_predictions.json")
    assert len(texts) == 12
    again = tmp_path / "again"
    code, shown, told = run(
        *("evaluate", "--model_name_or_path", out, *files[2:], *SMALL[:6], negative),
        *("--output_dir", again, "--json"),
    )
    assert code == 0, told
    for name in names - {"train_loss"}:
        assert json.loads(shown)[name] == results[name]
    for name in ("predictions", "nbest_predictions", "null_odds"):
        assert read(again / f"eval_{name}.json") == read(out / f"eval_{name}.json")
    unlabelled = document(6, seed=1, unanswerable=True)
    for paragraph in unlabelled["data"][0]["paragraphs"]:
        for one in paragraph["qas"]:
            del one["answers"], one["is_impossible"]
    test = write(tmp_path / "test.json", unlabelled)
    code, _, told = run(
        *("predict", "--model_name_or_path", out, "--test_file", test, *SMALL[:6]),
        *(negative, "--output_dir", again),
    )
    assert code == 0, told
    assert read(again / "predict_predictions.json") == texts
    model = ea.AutoModelForQuestionAnswering.from_pretrained(out)
    assert model.config.attention.to_dict()["kind"] == "evolving"


def test_an_interrupted_run_goes_on_to_the_same_bits(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    words = ["train", "--model_name_or_path", folder_of(tmp_path / "base")]
    words += [*data(tmp_path), *SMALL, "--save_steps", 2]
    code, plain, told = run(*words, "--output_dir", tmp_path / "plain", "--json")
    assert code == 0, told

    class Interrupt(TrainerCallback):
        def on_step_end(
            self, args: Any, state: Any, control: Any, **kwargs: Any
        ) -> None:
            if state.global_step == 3:
                signal.raise_signal(signal.SIGINT)

    from evolving_attention.cli import squad

    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(squad._Run, "callbacks", lambda self: [Interrupt()])
        code, _, told = run(*words, "--output_dir", out)
    assert (code, "run the same command again" in told) == (130, True)
    code, shown, told = run(*words, "--output_dir", out, "--json")
    assert code == 0, told
    assert "resuming from" in told
    for name in ("eval_loss", "eval_exact_match", "eval_f1"):
        assert json.loads(shown)[name] == json.loads(plain)[name]
    files = [folder / "model.safetensors" for folder in (out, tmp_path / "plain")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_evaluation_while_training_keeps_the_best(run: Any, tmp_path: Path):
    out = tmp_path / "out"
    code, shown, told = run(
        *("train", "--model_name_or_path", folder_of(tmp_path / "base")),
        *(*data(tmp_path), *SMALL, "--output_dir", out, "--json"),
        *("--eval_strategy", "epoch", "--save_strategy", "epoch"),
        *("--load_best_model_at_end", "--metric_for_best_model", "f1"),
        *("--max_eval_samples", 8, "--max_train_samples", 20),
    )
    assert code == 0, told
    assert "train: 20 questions" in told
    state = read(out / "trainer_state.json")
    assert state["best_metric"] == json.loads(shown)["eval_f1"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["train"], 2, "--model_name_or_path is missing"),
        (["train", "BASE"], 2, "--train_file is missing: expected questions to train"),
        (["evaluate", "BASE"], 2, "--validation_file is missing"),
        (["predict", "BASE"], 2, "--test_file is missing"),
        (["predict", "BASE", "--do_train"], 2, "evolving-attention squad train"),
        (
            ["train", "BASE", "NEGATIVE"],
            2,
            "--version_2_with_negative is missing: 4 of",
        ),
        (["train", "BASE", "--train_file", "x.csv"], 2, "expected a .json file"),
        (["train", "BASE", "--train_file", "no.json"], 3, "no such file"),
        (["train", "BASE", "FILES", "--doc_stride", 400], 2, "less than --max_seq"),
        (
            ["train", "BASE", "FILES", "--null_score_diff_threshold", 1],
            2,
            "--version_2_with_negative with it",
        ),
        (["train", "BASE", "FILES", "--n_best_size", 0], 2, "1 or more"),
        (
            ["train", "BASE", "FILES", "--max_seq_length", 10, "--doc_stride", 2],
            3,
            "raise max_length (--max_seq_length)",
        ),
    ],
)
def test_mistakes(run: Any, tmp_path: Path, words: Any, code: int, told: str):
    def written(word: Any) -> list[Any]:
        if word == "BASE":
            return ["--model_name_or_path", folder_of(tmp_path / "base")]
        if word in ("FILES", "NEGATIVE"):
            return data(tmp_path, 8, unanswerable=word == "NEGATIVE")
        return [word]

    every = [part for word in words for part in written(word)]
    found, _, error = run(*every, "--output_dir", tmp_path / "out")
    assert told in error
    assert found == code


def test_padding_changes_no_answer(run: Any, tmp_path: Path):
    base, files = folder_of(tmp_path / "base"), data(tmp_path)
    outs = [tmp_path / "packed", tmp_path / "padded"]
    found = []
    for out, words in zip(outs, ([], ["--pad_to_max_length"]), strict=True):
        code, shown, told = run(
            *("evaluate", "--model_name_or_path", base, *files[2:], *SMALL[:6]),
            *("--output_dir", out, "--json", *words),
        )
        assert code == 0, told
        found.append(json.loads(shown))
    assert found[0]["eval_loss"] == pytest.approx(found[1]["eval_loss"], rel=1e-6)
    assert found[0]["eval_f1"] == found[1]["eval_f1"]
    names = "eval_predictions.json"
    assert read(outs[0] / names) == read(outs[1] / names)


def test_workers_are_refused(run: Any, tmp_path: Path):
    words = ["--preprocessing_num_workers", 4, "--output_dir", tmp_path]
    code, _, told = run("train", "--model_name_or_path", "m", *words)
    assert code != 0
    assert "the tokenizer uses threads" in " ".join(told.split())
