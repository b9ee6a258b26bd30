"""Command lines of tiny training runs, one for each command, and their runner."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_pretraining import SIZES as PRETRAINING
from helpers_pretraining import documents
from helpers_pretraining import write as write_corpus
from helpers_squad import document, folder_of, write
from helpers_translation import sentences, write_files
from image_data import stripes
from series_data import levels, write_ts

import evolving_attention as ea
from evolving_attention.cli.main import app

WORDS = ["a", "film", "good", "bad", "was", "it", "the", "not", "very", "."]
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
SIZES = {
    "encoder_layers": 1,
    "decoder_layers": 1,
    "d_model": 16,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
}


def bert(folder: Path) -> Path:
    """Saves a tiny BERT with a WordPiece vocabulary."""
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


def own_rows(folder: Path, count: int, seed: int) -> Path:
    """Writes a CSV file of sentences whose label depends on one word."""
    random = np.random.default_rng(seed)
    lines = ["sentence,label"]
    for i in range(count):
        words = [*random.choice(WORDS[4:8], 4), WORDS[2 + i % 2]]
        lines.append(f"{' '.join(words)},{i % 2}")
    file = folder / f"rows-{seed}.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def glue(folder: Path) -> list[Any]:
    """Returns ``glue`` on generated data."""
    return [
        *("glue", "--model_name_or_path", bert(folder / "bert"), "--do_train"),
        *("--do_eval", "--train_file", own_rows(folder, 32, 0)),
        *("--validation_file", own_rows(folder, 12, 1), "--learning_rate", "5e-3"),
        *("--num_train_epochs", 2, "--save_steps", 3, "--attention", "evolving"),
    ]


def squad(folder: Path) -> list[Any]:
    """Returns ``squad train`` with a validation file."""
    return [
        *("squad", "train", "--model_name_or_path", folder_of(folder / "base")),
        *("--train_file", write(folder / "train.json", document(12))),
        *("--validation_file", write(folder / "dev.json", document(4, seed=1))),
        *("--max_seq_length", 24, "--doc_stride", 6, "--max_answer_length", 3),
        *("--num_train_epochs", 2, "--save_steps", 3, "--learning_rate", "5e-3"),
    ]


def translate(folder: Path) -> list[Any]:
    """Returns ``translate train`` with a validation set."""
    pairs = (
        *write_files(folder, "train", sentences(60)),
        *write_files(folder, "val", sentences(8, seed=3)),
    )
    names = "source_file", "target_file", "eval_source_file", "eval_target_file"
    data = [w for n, p in zip(names, pairs, strict=True) for w in (f"--{n}", p)]
    return [
        *("translate", "train", *data, "--model", "ea_transformer_lite"),
        *("--model_options", json.dumps(SIZES), "--vocab_size", 290),
        *("--per_device_train_batch_tokens", 200, "--warmup_steps", 4),
        *("--num_train_epochs", 2),
    ]


def pretrain(folder: Path) -> list[Any]:
    """Returns ``pretrain`` of a new model; a part of the corpus is held out."""
    corpus = write_corpus(folder / "corpus.txt", documents(24))
    return [
        *("pretrain", "--train_file", corpus, "--cache_dir", folder / "cache"),
        *("--model_name", "ea_bert_base", "--model_options", json.dumps(PRETRAINING)),
        *("--vocab_size", 120, "--max_seq_length", 24, "--learning_rate", "3e-3"),
        *("--per_device_train_batch_size", 8, "--num_train_epochs", 2),
        *("--validation_split_percentage", 20, "--save_steps", 3),
    ]


def image(folder: Path) -> list[Any]:
    """Returns ``image train`` with pictures to test on."""
    pictures, labels = stripes(24)
    file = folder / "pictures.npz"
    np.savez(file, X=pictures, y=labels)
    return [
        *("image", "train", "--train_dir", file, "--test_dir", file),
        *("--hidden_size", 16, "--num_hidden_layers", 2, "--num_attention_heads", 2),
        *("--n_epochs", 2, "--batch_size", 4, "--verbose", "false"),
    ]


def graph(folder: Path) -> list[Any]:
    """Returns ``graph train`` on two groups of nodes."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    pairs = rng.integers(0, 40, (300, 2))
    file = folder / "graph.npz"
    np.savez(
        file,
        edges=pairs[y[pairs[:, 0]] == y[pairs[:, 1]]],
        x=rng.random((40, 6)) + y[:, None],
        y=y,
        train_idx=np.arange(10),
        val_idx=np.arange(10, 20),
        test_idx=np.arange(20, 40),
    )
    return [
        *("graph", "train", "--data_file", file, "--undirected", "--n_epochs", 5),
        *("--hidden_size", 8, "--num_heads", 2),
    ]


def series(folder: Path, what: str = "train") -> list[Any]:
    """Returns ``timeseries train`` or ``pretrain`` on series with a test part."""
    return [
        *("timeseries", what),
        *("--train_file", write_ts(folder / "train.ts", *levels(24))),
        *("--test_file", write_ts(folder / "test.ts", *levels(8, seed=1))),
        *("--hidden_size", 16, "--num_blocks", 1, "--num_attention_heads", 2),
        *("--intermediate_size", 16, "--norm", "layer"),
        *("--n_epochs", 2, "--batch_size", 4, "--verbose", "false"),
    ]


TINY_NET = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}


def textnet(folder: Path) -> list[Any]:
    """Returns ``textnet train`` with a tuning part, on generated data."""
    return [
        *("textnet", "train", "--train_file", own_rows(folder, 32, 0)),
        *("--validation_file", own_rows(folder, 12, 1), "--embedding_size", 8),
        *("--model_options", json.dumps({**TINY_NET, "num_hidden_layers": 2})),
        *("--per_device_train_batch_size", 8, "--num_train_epochs", 2),
        *("--attention", "predictive", "--learning_rate", "1e-2"),
    ]


LINES: dict[str, Callable[[Path], list[Any]]] = {
    "glue": glue,
    "squad": squad,
    "textnet": textnet,
    "translate": translate,
    "pretrain": pretrain,
}
ESTIMATORS: dict[str, Callable[[Path], list[Any]]] = {"image": image, "graph": graph}
"""Commands that fit an estimator: they have no checkpoints."""


def runner(capture: Any, monkeypatch: pytest.MonkeyPatch, *first: str) -> Any:
    """Returns a runner of ``evolving-attention`` here: (exit code, stdout, stderr).

    Args:
        capture: capfd or capsys.
        first: words before those of each call.
    """
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: Any) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            app([*first, *map(str, words)], prog_name="evolving-attention")
        shown = capture.readouterr()
        return int(left.value.code or 0), shown.out, shown.err

    return run
