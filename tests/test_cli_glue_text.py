"""``evolving-attention glue`` with a T5: prompts, target words, generated answers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_t5 import word_t5

import evolving_attention as ea
from evolving_attention.cli import glue
from evolving_attention.data.glue_tasks import TASKS
from evolving_attention.data.table import TableDataset
from evolving_attention.data.text_to_text import (
    PromptDataset,
    answer_of,
    answers,
    prompt,
    target,
    wrong,
)

pytest.importorskip("sklearn")
pytest.importorskip("scipy")

FILLERS = ["a", "film", "was", "it", "the", "very"]
SCORES = [f"{i / 5:.1f}" for i in range(26)]
WORDS = ["sst2", "stsb", "mnli", "sentence", "sentence1", "sentence2", "premise"]
WORDS += ["hypothesis", "good", "bad", "negative", "positive", *FILLERS, *SCORES]
WORDS += TASKS["mnli"].label_names or ()
SMALL = [
    *("--per_device_train_batch_size", 8, "--learning_rate", "1e-2"),
    *("--num_train_epochs", 8, "--logging_steps", 100),
]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.fixture
def t5(tmp_path: Path) -> Path:
    """A folder with a random tiny T5 and a tokenizer of words."""
    return word_t5(tmp_path / "t5", WORDS)


@pytest.fixture
def run(t5: Path, capsys: Any, tmp_path: Path) -> Any:
    """Runs ``glue`` with the T5; returns (exit code, stdout, stderr)."""

    def command(*words: Any) -> tuple[int, str, str]:
        given = ["--model_name_or_path", t5, "--output_dir", tmp_path / "out"]
        with pytest.raises(SystemExit) as left:
            glue.main([*map(str, [*given, "--json", *words])])
        shown = capsys.readouterr()
        return int(left.value.code or 0), shown.out, shown.err

    return command


def sentences(count: int, word: str | None = None, seed: int = 0) -> list[str]:
    random = np.random.default_rng(seed)
    rows = [list(random.choice(FILLERS, 4)) for _ in range(count)]
    for i, row in enumerate(rows):
        row.insert(int(random.integers(5)), word or ("bad", "good")[i % 2])
    return [" ".join(row) for row in rows]


def write(folder: Path, split: str, head: str, rows: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{split}.tsv").write_text("\n".join([head, *rows]) + "\n")


def sst2(root: Path) -> Path:
    for split, count, seed in (("train", 48, 0), ("dev", 8, 1)):
        rows = [f"{s}\t{i % 2}" for i, s in enumerate(sentences(count, seed=seed))]
        write(root / "SST-2", split, "sentence\tlabel", rows)
    rows = [f"{i}\t{s}" for i, s in enumerate(sentences(4, seed=2))]
    write(root / "SST-2", "test", "index\tsentence", rows)
    return root


# --- the texts ------------------------------------------------------------------------

PROMPTS = {  # for the texts A and B, as in appendix D of the T5 paper
    "cola": ("cola sentence: A", {1: "acceptable"}),
    "sst2": ("sst2 sentence: A", {0: "negative"}),
    "mrpc": ("mrpc sentence1: A sentence2: B", {0: "not_equivalent"}),
    "stsb": ("stsb sentence1: A sentence2: B", {3.25: "3.2", 5.0: "5.0", 0.11: "0.2"}),
    "qqp": ("qqp question1: A question2: B", {1: "duplicate"}),
    "mnli": ("mnli hypothesis: B premise: A", {2: "contradiction"}),
    "qnli": ("qnli question: A sentence: B", {1: "not_entailment"}),
    "rte": ("rte sentence1: A sentence2: B", {0: "entailment"}),
    "wnli": ("wnli sentence1: A sentence2: B", {1: "entailment"}),
    "ax": ("mnli hypothesis: B premise: A", {1: "neutral"}),
}


@pytest.mark.parametrize("name", TASKS)
def test_prompts_and_targets(name: str):
    task, (text, targets) = TASKS[name], PROMPTS[name]
    assert prompt(task, ["A", "B"][: len(task.text)]) == text
    for label, words in targets.items():
        assert target(task, label) == words
    every = answers(task)
    assert len(every) == (26 if task.is_regression else task.num_labels)
    for i, word in enumerate(every):
        label = i / 5 if task.is_regression else i
        assert answer_of(task, f" {word} ") == label
        assert abs(wrong(task, label) - label) >= (2.5 if task.is_regression else 1)
        assert task.is_regression or 0 <= wrong(task, label) < task.num_labels
    for words in ("", "nan", "5.2", "-1", "inf", f"{every[0]} {every[1]}", "Positive"):
        assert answer_of(task, words) is None


def test_long_prompts_keep_the_end_token(t5: Path, caplog: Any):
    tokenizer = ea.AutoTokenizer.from_pretrained(t5)
    columns = {"sentence": ["a " * 30, "a"], "label": [1, 0]}
    table = TableDataset(columns, text_columns=["sentence"])
    rows = PromptDataset(table, TASKS["sst2"], tokenizer, 12)
    assert [len(ids) for ids in rows.prompts] == [12, 5]
    assert rows.prompts[0][-1] == tokenizer.eos_token_id
    assert "1 of 2 texts were truncated to 12 tokens" in caplog.text
    assert tokenizer.decode(rows[1]["labels"]) == "negative </s>"
    assert rows.labels is not None
    assert rows.labels.tolist() == [1, 0]


# --- the command ----------------------------------------------------------------------


def test_train_evaluate_and_predict(run: Any, tmp_path: Path):
    out = tmp_path / "out"
    code, shown, told = run(
        *("--task_name", "sst2", "--data_dir", sst2(tmp_path), *SMALL),
        *("--do_train", "--do_eval", "--do_predict", "--attention", "evolving"),
        *("--eval_strategy", "epoch", "--save_strategy", "epoch"),
        *("--load_best_model_at_end", "--metric_for_best_model", "accuracy"),
    )
    assert code == 0, told
    results = json.loads(shown)
    assert results["eval_accuracy"] == 1.0
    assert results["eval_invalid_outputs"] == 0
    assert results["eval_samples"] == 8
    assert results["predict_sst2_invalid_outputs"] == 0
    assert 0 < results["eval_loss"] < 0.5
    lines = (out / "predict_results_sst2.txt").read_text().splitlines()
    assert lines[0] == "index\tprediction"
    expected = ["negative" if "bad" in s else "positive" for s in sentences(4, seed=2)]
    assert lines[1:] == [f"{i}\t{word}" for i, word in enumerate(expected)]
    assert not list(out.glob("*probabilities*"))
    card = (out / "README.md").read_text()
    assert "AutoModelForSeq2SeqLM" in card
    assert "text2text-generation" in card
    translator = ea.Translator.from_pretrained(out)
    texts = [prompt(TASKS["sst2"], [s]) for s in sentences(4, seed=2)]
    assert translator.translate(texts, beam=1, max_new_tokens=4) == expected


def test_texts_that_are_no_answer_count_as_wrong(run: Any, tmp_path: Path):
    """An untrained model generates no text that is a score."""
    head = "index\tsentence1\tsentence2"
    rows = [f"{i}\t{s}\tthe film" for i, s in enumerate(sentences(9))]
    labelled = [f"{row}\t{i / 2}" for i, row in enumerate(rows)]
    write(tmp_path / "STS-B", "dev", f"{head}\tscore", labelled)
    write(tmp_path / "STS-B", "test", head, rows)
    code, shown, told = run(
        *("--task_name", "stsb", "--data_dir", tmp_path, "--do_eval", "--do_predict")
    )
    assert code == 0, told
    results = json.loads(shown)
    assert results["eval_invalid_outputs"] == 9
    assert results["eval_pearson"] < -0.8
    assert "9 of 9 generated texts are no answer of the task" in told
    lines = (tmp_path / "out/predict_results_stsb.txt").read_text().splitlines()
    assert lines[1:] == [f"{i}\t0.000" for i in range(9)]
    assert results["predict_stsb_invalid_outputs"] == 9


def test_the_papers_settings_and_three_chains(run: Any, tmp_path: Path):
    root = tmp_path / "MNLI"
    head, names = "index\tsentence1\tsentence2\tgold_label", answers(TASKS["mnli"])
    rows = [f"{i}\ta film\t{s}\t{names[i % 3]}" for i, s in enumerate(sentences(6))]
    for split in ("train", "dev_matched", "dev_mismatched"):
        write(root, split, head, rows)
    code, shown, told = run(
        *("--task_name", "mnli", "--data_dir", tmp_path, "--paper_settings"),
        *("--do_train", "--do_eval", "--max_steps", 2, "--early_stopping_patience", 3),
        *("--eval_strategy", "steps", "--eval_steps", 1),
    )
    assert code == 0, told
    results = json.loads(shown)
    assert {"eval_accuracy", "eval_accuracy_mm", "eval_invalid_outputs_mm"} <= {
        *results
    }
    args = (tmp_path / "out/README.md").read_text()
    for line in (
        "| learning_rate | 1e-05 |",
        "| num_train_epochs | 5.0 |",
        "| per_device_train_batch_size | 16 |",
    ):
        assert line in args
    model = ea.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    config: Any = model.config
    causal = ea.attention.EvolvingCausal
    assert config.attention == ea.attention.Evolving(0.1, 0.1)
    assert config.decoder_attention == causal(0.0, 0.1)
    assert config.cross_attention == causal(0.0, 0.1, shift="query")
    assert config.dropout_rate == 0.1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--train_file", "a.csv"], "prompts for GLUE's tasks alone, expected --task"),
        (
            ["--task_name", "rte", "--classifier_hidden_size", 8],
            "--classifier_hidden_size with a T5",
        ),
        (["--task_name", "rte", "--pad_to_max_length"], "pad_to_max_length True: exp"),
    ],
)
def test_refused(run: Any, words: list[str], text: str):
    code, _, told = run(*words, "--do_train")
    assert code != 0
    assert text in " ".join(told.split())


def test_skipped_rows_keep_their_numbers(run: Any, tmp_path: Path):
    sst2(tmp_path)
    file = tmp_path / "SST-2" / "test.tsv"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:2], "1", *lines[3:]]) + "\n")
    code, _, told = run(
        *("--task_name", "sst2", "--data_dir", tmp_path, "--do_predict"),
        *("--bad_rows", "skip"),
    )
    assert code == 0, told
    written = (tmp_path / "out/predict_results_sst2.txt").read_text().splitlines()
    assert [line.split("\t")[0] for line in written] == ["index", "0", "2", "3"]
