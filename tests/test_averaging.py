"""Averages of checkpoints: values, files and refused inputs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from helpers_translation import model, tokenizer
from spiece_data import PIECES, model_of

import evolving_attention as ea
from evolving_attention.training.averaging import average_checkpoints, last_checkpoints


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def folders(root: Path, count: int) -> list[Path]:
    """Saves ``count`` models with different weights; returns their folders."""
    made = []
    for seed in range(count):
        folder = root / f"model-{seed}"
        model(30, seed).save_pretrained(folder)
        tokenizer().save_pretrained(folder)
        made.append(folder)
    return made


def test_weights_are_the_mean(tmp_path: Path):
    parts = folders(tmp_path, 3)
    average_checkpoints(parts, tmp_path / "mean")
    load = ea.AutoModelForSeq2SeqLM.from_pretrained
    found = load(tmp_path / "mean").state_dict()
    states = [load(part).state_dict() for part in parts]
    for name, array in found.items():
        mean = np.mean([state[name].astype(np.float64) for state in states], axis=0)
        np.testing.assert_array_equal(array, mean.astype(np.float32))
    words = ea.AutoTokenizer.from_pretrained(tmp_path / "mean")
    assert words.get_vocab() == tokenizer().get_vocab()


def test_one_model_is_its_own_mean(tmp_path: Path):
    (part,) = folders(tmp_path, 1)
    average_checkpoints([part], tmp_path / "mean")
    files = [folder / "model.safetensors" for folder in (part, tmp_path / "mean")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_every_form_of_tokenizer_is_copied(tmp_path: Path):
    parts = folders(tmp_path, 2)
    names = ("spiece.model", "vocab.txt", "vocab.json", "merges.txt")
    for name in names:
        (parts[1] / name).write_text(name)
    (parts[1] / "tokenizer.json").unlink()
    (tmp_path / "mean").mkdir()
    for left in ("tokenizer.json", "vocab.txt", "notes.txt"):
        (tmp_path / "mean" / left).write_text("of another model")
    average_checkpoints(parts, tmp_path / "mean")
    assert [(tmp_path / "mean" / name).read_text() for name in names] == [*names]
    assert not (tmp_path / "mean" / "tokenizer.json").exists()
    assert (tmp_path / "mean" / "notes.txt").exists()


def test_an_averaged_t5_has_its_tokenizer(tmp_path: Path):
    pytest.importorskip("sentencepiece", reason="no extra t5")
    sizes = {"vocab_size": 40, "d_model": 8, "d_ff": 8, "d_kv": 4, "num_layers": 1}
    ea.create_model(
        "t5_small", task="seq2seq_lm", num_heads=2, **sizes
    ).save_pretrained(tmp_path / "one")
    (tmp_path / "one" / "spiece.model").write_bytes(model_of(*PIECES))
    words = ea.AutoTokenizer.from_pretrained(tmp_path / "one")
    words.save_pretrained(tmp_path / "one")
    average_checkpoints([tmp_path / "one"], tmp_path / "mean")
    found = ea.AutoTokenizer.from_pretrained(tmp_path / "mean")
    assert found.get_vocab() == words.get_vocab()


def test_refused(tmp_path: Path):
    parts = folders(tmp_path, 2)
    with pytest.raises(ea.ConfigError, match="holds a model already"):
        average_checkpoints(parts, parts[0])
    with pytest.raises(ea.ConfigError, match="no folders"):
        average_checkpoints([], tmp_path / "mean")
    model(31).save_pretrained(parts[1])
    with pytest.raises(ea.CheckpointError, match=r"model-1: differs .* in vocab_size"):
        average_checkpoints(parts, tmp_path / "mean")
    with pytest.raises(ea.CheckpointError, match="has 0 checkpoints, expected 3"):
        last_checkpoints(tmp_path, 3)
    assert not (tmp_path / "mean").exists()
