"""A data set type unknown to the package works in the Trainer's loop."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evolving_attention as ea
from evolving_attention.data.collate import collate_packed
from evolving_attention.data.features import Features
from evolving_attention.data.packed import Batch, PackedDataset, tokens_of
from evolving_attention.data.series import SeriesRows
from evolving_attention.training import batches
from evolving_attention.training.fingerprint import data_fingerprint

PIXELS = 6


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)


class Pictures:
    """Pictures labelled with the brighter half: no tokens, offsets or dicts."""

    def __init__(self, count: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.pixels = random.standard_normal((count, PIXELS)).astype(np.float32)
        halves = self.pixels.reshape(count, 2, -1).sum(2)
        self.names = halves.argmax(1).astype(np.int64)

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def lengths(self) -> np.ndarray:
        return np.ones(len(self), np.int64)

    def gather(self, indices: np.ndarray) -> Batch:
        arrays = {"pixels": self.pixels[indices], "names": self.names[indices]}
        return Batch({**arrays, "row_ids": np.asarray(indices)}, targets=["names"])

    def fingerprint(self) -> str:
        return str(self.pixels.sum())


class Linear:
    """Linear classifier of pictures on the core."""

    training, device, dtype = True, "cpu", "float32"

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        weight = 0.1 * random.standard_normal((2, PIXELS)).astype(np.float32)
        self.weight = ea.Tensor(weight, requires_grad=True)
        self.bias = ea.Tensor(np.zeros(2, np.float32), requires_grad=True)

    def named_parameters(self) -> list[tuple[str, Any]]:
        return [("weight", self.weight), ("bias", self.bias)]

    def train(self, mode: bool = True) -> Linear:
        self.training = mode
        return self

    def eval(self) -> Linear:
        return self.train(False)

    def save_pretrained(self, folder: Path) -> None:
        arrays = {name: p.numpy().tolist() for name, p in self.named_parameters()}
        (Path(folder) / "weights.json").write_text(json.dumps(arrays))

    def __call__(
        self, pixels: Any, names: Any = None, output_hidden_states: Any = None
    ) -> Any:
        logits = ea.functional.linear(ea.Tensor(pixels), self.weight, self.bias)
        loss = None if names is None else ea.functional.cross_entropy(logits, names)
        return type("Output", (), {"logits": logits, "loss": loss})()


def trainer(folder: Path, **options: Any) -> ea.Trainer:
    arguments = ea.TrainingArguments(
        str(folder),
        num_train_epochs=6,
        learning_rate=0.1,
        gradient_accumulation_steps=2,
        include_num_input_tokens_seen=True,
        disable_tqdm=True,
        save_strategy="epoch",
        **options,
    )
    return ea.Trainer(
        Linear(),
        arguments,
        train_dataset=Pictures(44, seed=1),
        eval_dataset=Pictures(20, seed=2),
    )


def test_pictures_train_and_are_evaluated(tmp_path: Path):
    assert isinstance(Pictures(1, 0), PackedDataset)
    one = trainer(tmp_path)
    before = one.evaluate()["eval_loss"]
    one.train()
    assert one.evaluate()["eval_loss"] < 0.5 * before
    assert one.state.num_input_tokens_seen == 6 * 44
    found = one.predict(Pictures(20, seed=2))
    assert found.predictions.shape == (20, 2)
    facts = json.loads((tmp_path / "checkpoint-18/trainer_state.json").read_text())
    fingerprint = facts["resume"]["fingerprint"]
    assert fingerprint["data"] == Pictures(44, seed=1).fingerprint()


def test_rows_of_a_bad_picture_are_named(tmp_path: Path):
    one = trainer(tmp_path)
    one.train_dataset.pixels[7] = np.nan
    with pytest.raises(ea.NonFiniteError, match="rows 7 of the training set"):
        one.train()


def test_a_batch_is_cut_as_it_declares():
    arrays = {
        "sequence_offsets": np.array([0, 2, 3]),
        "values": np.arange(3),
        "weights": np.array([0.5, 0.25, 0.125]),  # per row, although 3 like tokens
    }
    batch = Batch(arrays, tokens=["values"], targets=["weights"])
    part = batches.slice_rows(batch, 1, 2)
    assert part["values"].tolist() == [2]
    assert part["weights"].tolist() == [0.25]
    assert part["sequence_offsets"].tolist() == [0, 1]
    assert isinstance(part, Batch)
    assert part.tokens == {"values"}
    assert batches.has_targets(part)
    assert not batches.has_targets(Batch({"values": np.arange(3)}))


def test_batches_of_rows_without_token_types_are_cut():
    rows = [{"input_ids": [i, i], "label": i} for i in range(4)]
    flat = Features(np.arange(8), np.arange(0, 9, 2), labels=np.arange(4))
    for batch in (collate_packed(rows), flat.gather(np.arange(4))):
        parts = batches.split_rows(batch, 2)
        assert [part["labels"].tolist() for part in parts] == [[0, 1], [2, 3]]
        assert [len(part["input_ids"]) for part in parts] == [4, 4]


def test_a_dict_is_read_by_lengths():
    batch = {
        "input_ids": np.arange(5),
        "sequence_offsets": np.array([0, 2, 5]),
        "labels": np.array([1, 0]),
        "anything": np.arange(5),
    }
    assert sorted(tokens_of(batch)) == ["anything", "input_ids"]
    part = batches.slice_rows(batch, 1, 2)
    assert type(part) is dict
    assert part["anything"].tolist() == [2, 3, 4]
    assert part["labels"].tolist() == [0]


def test_fingerprints_of_earlier_versions_hold():
    """Saved runs can resume: they identify their data by these fingerprints."""
    series = SeriesRows(np.arange(6.0).reshape(3, 2), np.array([0, 1, 3]), np.arange(2))
    assert data_fingerprint(series) == "1d7dcd167be94b121db4524acd69567f"
    tokens = Features(
        np.arange(3), np.array([0, 1, 3]), np.zeros(3, np.int32), np.arange(2)
    )
    assert data_fingerprint(tokens) == "62d11f531ca91b61177095cf8b7bbbeb"
    rows = [{"input_ids": [1, 2], "attention_mask": [1, 1], "label": 1}]
    assert data_fingerprint(rows) == "475965199ac2334ac63f7c6c9f898bc6"
    pixels = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    raw = [{"pixel_values": pixels, "labels": np.int64(1), "text": "a", "n": [1.5]}]
    assert data_fingerprint(raw) == "b154d3011d903c03a906e4ff8bde86ba"


def test_fingerprints_tell_the_content_of_every_kind_of_value():
    torch, image = pytest.importorskip("torch"), pytest.importorskip("PIL.Image")

    def found(value: Any) -> str:
        return data_fingerprint([{"picture": value, "labels": [value]}])

    zeros, ones = np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32)
    kinds = (
        torch.as_tensor,
        lambda a: torch.as_tensor(a, dtype=torch.bfloat16),
        lambda a: torch.as_tensor(a).requires_grad_(),
        lambda a: torch.as_tensor(a) * 1j,
        lambda a: torch.as_tensor(a)[0, 0],
        lambda a: image.fromarray(a.astype(np.uint8)),
        ea.Tensor,
        bytes,
        lambda a: Path(str(a[0, 0])),
        lambda a: a.astype(str),
        lambda a: a.astype("S"),
        lambda a: a.astype(object),
    )
    for kind in kinds:
        assert found(kind(zeros)) == found(kind(zeros))
        assert found(kind(zeros)) != found(kind(ones))
    assert found(torch.as_tensor(ones)) == found(ones)


def test_values_whose_content_is_not_compared_are_named_once(caplog):
    torch = pytest.importorskip("torch")
    rows = [{"one": {1, 2}, "other": torch.eye(2).to_sparse()} for _ in range(3)]
    for _ in range(2):
        assert data_fingerprint(rows) == data_fingerprint(rows)
    (record,) = caplog.records
    assert "by type alone when a run resumes: Tensor, set;" in record.message
