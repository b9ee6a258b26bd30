"""Untrusted folders: no link may lead outside, and no path in their files is opened."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_models import tiny
from image_data import TINY as IMAGES
from image_data import stripes
from series_data import TINY
from spiece_data import PIECES, model_of

import evolving_attention as ea
from evolving_attention import durable
from evolving_attention.errors import CheckpointError
from evolving_attention.training.state import TrainerState

ROWS = [{"input_ids": [2, 5 + i % 9, 3], "label": i % 2} for i in range(12)]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "time", "fly"]


def tokenizer_folder(folder: Path) -> None:
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    ea.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)


def bpe_folder(folder: Path) -> None:
    vocab = {"<s>": 0, "<pad>": 1, "</s>": 2, "a": 3, "b": 4, "ab": 5}
    (folder / "vocab.json").write_text(json.dumps(vocab))
    (folder / "merges.txt").write_text("a b\n")


def vocab_folder(folder: Path) -> None:
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")


def estimator_folder(folder: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 2, 12)), [0, 1] * 3
    ea.TimeSeriesClassifier(**TINY).fit(X, y).save(folder)


def image_folder(folder: Path) -> None:
    X, y = stripes()
    ea.ImageClassifier(**IMAGES).fit(X, y).save(folder)


def graph_folder(folder: Path) -> None:
    x, ring = np.eye(4, dtype=np.float32), np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
    model = ea.GraphNodeClassifier(n_epochs=1, hidden_size=8, validation_fraction=0.0)
    model.fit(x, [0, 1, 0, 1], graph=ring).save(folder)


def spiece_folder(folder: Path) -> None:
    (folder / "spiece.model").write_bytes(model_of(*PIECES))


def run_folder(folder: Path) -> None:
    trainer_in(folder).train()


def trainer_in(folder: Path, **options: Any) -> ea.Trainer:
    arguments = {
        "eval_strategy": "epoch",
        "save_strategy": "epoch",
        "per_device_train_batch_size": 4,
        "num_train_epochs": 2,
        "report_to": "none",
        "disable_tqdm": True,
        **options,
    }
    return ea.Trainer(
        model=tiny(),
        args=ea.TrainingArguments(output_dir=str(folder), **arguments),
        train_dataset=ROWS,
        eval_dataset=ROWS,
    )


def load_tokenizer(folder: Path) -> None:
    ea.AutoTokenizer.from_pretrained(folder)


def load_estimator(folder: Path) -> None:
    ea.TimeSeriesClassifier.load(folder)


def load_images(folder: Path) -> None:
    ea.ImageClassifier.load(folder)


def load_graph(folder: Path) -> None:
    ea.GraphNodeClassifier.load(folder)


def resume(folder: Path) -> None:
    trainer = trainer_in(folder, num_train_epochs=3)
    trainer.train(resume_from_checkpoint=str(folder / "checkpoint-3"))


CASES: dict[str, tuple[Callable[[Path], None], str, Callable[[Path], None]]] = {
    "tokenizer.json": (tokenizer_folder, "tokenizer.json", load_tokenizer),
    "settings": (tokenizer_folder, "tokenizer_config.json", load_tokenizer),
    "special": (tokenizer_folder, "special_tokens_map.json", load_tokenizer),
    "words": (vocab_folder, "vocab.txt", load_tokenizer),
    "ids": (bpe_folder, "vocab.json", load_tokenizer),
    "merges": (bpe_folder, "merges.txt", load_tokenizer),
    "estimator": (estimator_folder, "estimator.json", load_estimator),
    "weights": (estimator_folder, "model.safetensors", load_estimator),
    "pictures": (image_folder, "estimator.json", load_images),
    "graph": (graph_folder, "estimator.json", load_graph),
    "pieces": (spiece_folder, "spiece.model", load_tokenizer),
    "state": (run_folder, "checkpoint-3/trainer_state.json", resume),
    "moments": (run_folder, "checkpoint-3/optimizer.safetensors", resume),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Any], Path]:
    """Returns a function that makes each folder once; tests copy it."""
    folders: dict[Any, Path] = {}

    def folder_of(make: Any) -> Path:
        if make not in folders:
            folders[make] = tmp_path_factory.mktemp(make.__name__)
            make(folders[make])
        return folders[make]

    return folder_of


opened: list[str] = []


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        opened.append(os.fsdecode(arguments[0]))


sys.addaudithook(watch)


@pytest.mark.parametrize("name", sorted(CASES))
def test_links_are_not_followed(
    name: str, tmp_path: Path, made: Callable[[Any], Path]
) -> None:
    make, file, load = CASES[name]
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    shutil.copytree(made(make), folder)
    load(folder)  # loads without the link
    shutil.rmtree(folder)
    shutil.copytree(made(make), folder)
    path = folder / file
    path.rename(outside)
    path.symlink_to(outside)
    manifest = path.parent / durable.MANIFEST
    if manifest.exists():  # a manifest may omit the file
        value = json.loads(manifest.read_text())
        del value["files"][path.name]
        manifest.write_text(json.dumps(value))
    opened.clear()
    with pytest.raises(CheckpointError, match=f"{path.name}: is a symbolic link"):
        load(folder)
    assert str(outside) not in opened


def test_a_snapshot_of_the_hub_links_to_its_blobs(tmp_path: Path) -> None:
    root = tmp_path / "models--x--y"
    snapshot, blobs = root / "snapshots" / "0123abcd", root / "blobs"
    for folder in (snapshot, blobs):
        folder.mkdir(parents=True)
    vocab_folder(blobs)
    (blobs / "vocab.txt").rename(blobs / "f00d")
    (snapshot / "vocab.txt").symlink_to("../../blobs/f00d")
    assert ea.AutoTokenizer.from_pretrained(snapshot).vocab_size == len(WORDS)
    secret = tmp_path / "secret"
    (blobs / "f00d").rename(secret)
    (snapshot / "vocab.txt").unlink()
    (snapshot / "vocab.txt").symlink_to(secret)
    with pytest.raises(CheckpointError, match="outside of the cache of its model"):
        ea.AutoTokenizer.from_pretrained(snapshot)


RECORDS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "estimator: no classes": (lambda r: r.update(classes=[]), r"classes is \[\], exp"),
    "estimator: one more": (
        lambda r: r["classes"].append(7),
        "classes is .*of 2 labels",
    ),
    "estimator: no metadata": (
        lambda r: r.update(metadata=None),
        "metadata is None, e",
    ),
    "estimator: text": (
        lambda r: r["metadata"].update(n_channels="2"),
        "metadata is .2., expected 2",
    ),
    "estimator: no deviation": (
        lambda r: r["scaler"].update(deviation=None),
        "deviation is None, expected 2 finite numbers above 0",
    ),
    "estimator: zero": (lambda r: r["scaler"].update(deviation=[0, 1]), r"is \[0, 1\]"),
    "estimator: no end": (
        lambda r: r["scaler"].update(deviation=[1, "inf"]),
        "deviation is .*expected 2 finite numbers above 0",
    ),
    "estimator: a mean": (lambda r: r["scaler"].update(mean=["nan", 1]), "mean is"),
    "estimator: one channel": (
        lambda r: r["scaler"].update(mean=[0.0], deviation=[1.0]),
        r"mean is \[0.0\], expected 2 numbers",
    ),
    "pictures: one more": (
        lambda r: r["classes"].append(7),
        "classes is .*of 2 labels",
    ),
    "pictures: size": (
        lambda r: r.update(size=[-1, 8]),
        r"size is \[-1, 8\], expected",
    ),
    "pictures: large": (
        lambda r: r.update(size=[1 << 90, 8]),
        "size is .*expected pix",
    ),
    "pictures: two channels": (
        lambda r: r.update(mean=[0.0, 0.0], deviation=[1.0, 1.0]),
        r"mean is \[0.0, 0.0\], expected 1 numbers",
    ),
    "pictures: infinite": (lambda r: r.update(scale=[1 << 9999]), "cannot be used"),
    "graph: one more": (lambda r: r["classes"].append(7), "classes is .*of 2 labels"),
    "graph: no classes": (
        lambda r: r.update(classes=None),
        "cannot be used .*NoneType",
    ),
}


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_with_other_values_is_refused(
    kind: str, tmp_path: Path, made: Callable[[Any], Path]
) -> None:
    make, name, load = CASES[kind.split(":")[0]]
    folder = tmp_path / "folder"
    shutil.copytree(made(make), folder)
    change, told = RECORDS[kind]
    record = json.loads((folder / name).read_text())
    change(record)
    (folder / name).write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match=rf"estimator\.json: .*{told}"):
        load(folder)


def change_state(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Changes the state of checkpoint-3."""
    path = folder / "checkpoint-3"
    state = json.loads((path / "trainer_state.json").read_text())
    change(state)
    (path / "trainer_state.json").write_text(json.dumps(state))
    manifest = json.loads((path / durable.MANIFEST).read_text())
    del manifest["files"]["trainer_state.json"]
    (path / durable.MANIFEST).write_text(json.dumps(manifest))


def best_said(folder: Path, best: Any) -> None:
    """Changes the best checkpoint named in the state of checkpoint-3."""
    change_state(folder, lambda state: state.update(best_model_checkpoint=best))


STATES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "text": (lambda s: s.update(global_step="2"), "global_step is '2', expected a who"),
    "negative": (lambda s: s.update(batches_done=-1), "batches_done is -1, expected a"),
    "a fraction": (lambda s: s.update(epoch_index=0.5), "epoch_index is 0.5, expected"),
    "a sum": (lambda s: s.update(total_loss="x"), "total_loss is 'x', expected a num"),
    "a log": (lambda s: s.update(log_history=["x"]), r"expected a list \(each a dict"),
    "requests": (lambda s: s.update(pending=[1]), r"pending is \[1\], expected a dict"),
    "a number": (lambda s: s.update(best_model_checkpoint=7), "checkpoint is 7, exp"),
    "no facts": (lambda s: s["resume"].pop("fingerprint"), "cannot be used .*fingerp"),
    "no rates": (lambda s: s["resume"].pop("schedule"), "cannot be used .*schedule"),
    "rates": (lambda s: s["resume"].update(schedule=7), "cannot be used .*TypeError"),
    "a list": (lambda s: s["resume"].update(random=[1]), "cannot be used .*TypeError"),
    "infinite": (
        lambda s: s["resume"]["random"].update(core=[1 << 80, 0]),
        "cannot be used",
    ),
    "a callback": (
        lambda s: s.update(stateful_callbacks={"EarlyStoppingCallback": [1]}),
        "cannot be used .*TypeError",
    ),
}


@pytest.mark.parametrize("kind", STATES)
def test_a_state_with_other_values_is_refused(
    kind: str, tmp_path: Path, made: Callable[[Any], Path]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(made(run_folder), folder)
    change, told = STATES[kind]
    change_state(folder, change)
    options = {"metric_for_best_model": "loss", "num_train_epochs": 3}
    trainer = trainer_in(folder, **options)
    trainer.add_callback(ea.EarlyStoppingCallback(9))
    with pytest.raises(CheckpointError, match=rf"trainer_state\.json: .*{told}"):
        trainer.train(resume_from_checkpoint=str(folder / "checkpoint-3"))


def test_a_state_is_read_by_itself(tmp_path: Path, made: Callable[[Any], Path]) -> None:
    file = tmp_path / "trainer_state.json"
    state = TrainerState(global_step=3)
    state.save_to_json(file)
    assert TrainerState.load_from_json(file) == state
    whole = made(run_folder) / "checkpoint-3" / file.name
    assert TrainerState.load_from_json(str(whole)).global_step == 3
    for data, told in (
        (file.read_bytes()[:50], "not valid JSON"),
        (b"\xff", "not valid JSON"),
        (b"3", "expected an object"),
    ):
        file.write_bytes(data)
        with pytest.raises(CheckpointError, match=rf"{file}: .*{told}"):
            TrainerState.load_from_json(file)
    file.unlink()
    with pytest.raises(CheckpointError, match=rf"cannot read {file}: .*No such file"):
        TrainerState.load_from_json(file)


def test_sums_that_were_not_finite_go_on(
    tmp_path: Path, made: Callable[[Any], Path]
) -> None:
    """JSON has no NaN, so a run with on_nonfinite="warn" saves it as text."""
    folder = tmp_path / "run"
    shutil.copytree(made(run_folder), folder)
    change_state(folder, lambda state: state.update(total_loss="nan"))
    trainer = trainer_in(folder)
    trainer.train(resume_from_checkpoint=str(folder / "checkpoint-3"))
    assert np.isnan(trainer.state.total_loss)


@pytest.mark.parametrize("kind", ["elsewhere", "link", "climbs", "no file"])
def test_the_best_checkpoint_lies_beside_the_others(
    kind: str, tmp_path: Path, made: Callable[[Any], Path]
) -> None:
    folder, outside = tmp_path / "run", tmp_path / "outside"
    shutil.copytree(made(run_folder), folder)
    shutil.copytree(folder / "checkpoint-6", outside / "checkpoint-9")
    shutil.rmtree(folder / "checkpoint-6")
    said: dict[str, Any] = {
        "elsewhere": str(outside / "checkpoint-9"),
        "link": str(folder / "checkpoint-9"),
        "climbs": str(folder / "checkpoint-9" / ".." / ".." / "outside"),
        "no file": "",
    }
    if kind == "link":
        (folder / "checkpoint-9").symlink_to(outside / "checkpoint-9")
    best_said(folder, said[kind])
    opened.clear()
    options = {"load_best_model_at_end": True, "metric_for_best_model": "loss"}
    with pytest.raises(
        CheckpointError, match=r"best_model_checkpoint is .*expected the"
    ):
        trainer_in(folder, **options).train(
            resume_from_checkpoint=str(folder / "checkpoint-3")
        )
    trainer = trainer_in(folder)
    trainer.train(resume_from_checkpoint=str(folder / "checkpoint-3"))
    assert trainer.state.global_step == 6
    assert not [path for path in opened if path.startswith(str(outside))]


def test_a_run_that_was_moved_finds_its_best(
    tmp_path: Path, made: Callable[[Any], Path]
) -> None:
    """Even if the old folder still exists: the copy is an independent run."""
    folder = tmp_path / "copy"
    shutil.copytree(made(run_folder), folder)
    best_said(folder, str(made(run_folder) / "checkpoint-3"))
    trainer = trainer_in(folder)
    trainer.train(resume_from_checkpoint=str(folder / "checkpoint-3"))
    assert trainer.state.best_model_checkpoint == str(folder / "checkpoint-3")
