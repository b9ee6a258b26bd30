"""Rows as callers pass them to a Trainer: edited, map-style, ragged, long, …"""

from __future__ import annotations

import functools
import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_models import tiny

import evolving_attention as ea
from evolving_attention.data.features import tokenize_dataset
from evolving_attention.errors import InputError
from evolving_attention.training import Trainer, TrainingArguments

Row = dict[str, Any]


def tokenizer(texts: list[str], pairs: Any = None, **options: Any) -> Any:
    """Tokenises each word to its length + 4, at most ``max_length`` words."""
    tokenizer.calls += 1  # type: ignore[attr-defined]
    both = zip(texts, pairs or [""] * len(texts), strict=True)
    words = [f"{first} {second}".split() for first, second in both]
    most = options["max_length"]
    return {"input_ids": [[len(word) + 4 for word in row[:most]] for row in words]}


tokenizer.calls = 0  # type: ignore[attr-defined]


def texts(count: int = 12) -> list[Row]:
    return [
        {"text": " ".join(["bb"] * (1 + i % 3) + ["c"] * (i % 2)), "label": i % 2}
        for i in range(count)
    ]


def trainer_of(folder: Path, model: Any = None, **given: Any) -> Trainer:
    known = set(TrainingArguments.__dataclass_fields__)
    args = {name: given.pop(name) for name in [*given] if name in known}
    args = {"num_train_epochs": 1, "disable_tqdm": True, "save_strategy": "no"} | args
    given = {"processing_class": tokenizer, "train_dataset": texts()} | given
    arguments = TrainingArguments(str(folder), **args)
    return Trainer(model or tiny(), arguments, **given)


# ------------------------------------------------------------------- edited in place


def test_rows_that_were_edited_are_read_again(tmp_path: Path) -> None:
    rows = texts(8)
    trainer = trainer_of(tmp_path, eval_dataset=rows)
    trainer.train()
    before = trainer.evaluate()["eval_loss"]
    for row in rows:
        row["label"] = 1 - row["label"]
    assert trainer.evaluate()["eval_loss"] != before
    rows.append({"text": "bb", "label": 0})
    found = trainer.predict(rows)
    assert (len(found.predictions), found.label_ids.tolist()[-1]) == (9, 0)
    trainer.train_dataset.append({"text": "c", "label": 1})
    trainer.args.per_device_train_batch_size = 1
    assert trainer.train().global_step == 13


def test_a_frame_that_was_edited_is_read_again(tmp_path: Path) -> None:
    frame = pytest.importorskip("pandas").DataFrame(texts(8))
    trainer = trainer_of(tmp_path, eval_dataset=frame)
    assert set(trainer.predict(frame).label_ids.tolist()) == {0, 1}
    frame["label"] = 0
    assert set(trainer.predict(frame).label_ids.tolist()) == {0}


class Data(list[Row]):
    """A list that supports weak references."""


def test_no_data_set_is_held_and_a_run_tokenises_once(tmp_path: Path) -> None:
    other, trainer = Data(texts(4)), trainer_of(tmp_path)
    trainer.predict(other)
    gone = weakref.ref(other)
    del other
    gc.collect()
    assert gone() is None
    trainer.eval_dataset = {"a": texts(4), "b": texts(4)}
    trainer.args.eval_strategy, trainer.args.num_train_epochs = "epoch", 3
    before = tokenizer.calls  # type: ignore[attr-defined]
    trainer.train()
    assert tokenizer.calls == before + 3  # type: ignore[attr-defined]


# ------------------------------------------------------------------------- map-style


class Map:
    """Like PyTorch's data sets: its length ends the iteration, not an IndexError."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Row:
        return self.rows[index % len(self.rows)]


class ByName(Map):
    def __getitem__(self, index: int) -> Row:
        return dict(enumerate(self.rows))[index]


def ids(count: int = 12) -> list[Row]:
    return [
        {"input_ids": [5 + i % 9] * (2 + i % 3), "label": i % 2} for i in range(count)
    ]


@pytest.mark.parametrize("kind", [Map, ByName])
@pytest.mark.parametrize("rows", [texts, ids])
def test_data_sets_that_end_at_their_length(
    tmp_path: Path, kind: type[Map], rows: Any
) -> None:
    own, plain = tiny(), tiny()
    data = kind(rows())
    group = {"train_sampling_strategy": "group_by_length"}
    trainer = trainer_of(tmp_path, own, train_dataset=data, **group)
    trainer.train()
    expected = trainer_of(tmp_path, plain, train_dataset=rows(), **group)
    expected.train()
    for mine, theirs in zip(own.parameters(), plain.parameters(), strict=True):
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(theirs))
    found = trainer.predict(data)
    assert found.label_ids.tolist() == [row["label"] for row in rows()]


def test_names_of_classes_in_a_map_style_set(tmp_path: Path) -> None:
    named = [{**row, "label": ("no", "yes")[row["label"]]} for row in texts()]
    model = tiny(id2label={0: "no", 1: "yes"})
    found = trainer_of(tmp_path, model).predict(Map(named))
    assert found.label_ids.tolist() == [0, 1] * 6
    with pytest.raises(InputError, match=r"row 0 has 'no', expected classes of the m"):
        trainer_of(tmp_path).predict(Map(named))


# ---------------------------------------------------------------------- long and ragged


@pytest.mark.parametrize("positions", [40, 200])
def test_long_texts_are_cut_as_predict_cuts_them(
    tmp_path: Path, positions: int
) -> None:
    rows = [{"text": "bb " * 150, "label": i % 2} for i in range(4)]
    model = tiny(max_position_embeddings=positions)
    trainer = trainer_of(tmp_path, model, train_dataset=rows)
    (batch, *_) = trainer._loaders.evaluation(trainer._rows(rows, "rows"), None)
    assert np.diff(batch["sequence_offsets"]).tolist() == [min(positions, 128)] * 4
    assert trainer.train().global_step == 1


def test_a_roberta_has_fewer_positions(tmp_path: Path) -> None:
    model = tiny("RobertaForSequenceClassification", pad_token_id=1)
    rows = [{"text": "bb " * 150, "label": i % 2} for i in range(4)]
    trainer_of(tmp_path, model, train_dataset=rows).train()  # takes 38 of 40 positions


def test_a_column_that_begins_later_is_not_dropped(tmp_path: Path) -> None:
    rows = texts(4)
    rows[2]["text_pair"] = "bb"
    with pytest.raises(InputError, match="row 0: 'text_pair' is NoneType; expected te"):
        trainer_of(tmp_path, train_dataset=rows).train()
    for row in rows:
        row.setdefault("text_pair", "c")
    trainer_of(tmp_path, train_dataset=rows).train()


# -------------------------------------------------------------------------- labels


def test_scores_of_minus_one_are_labels(tmp_path: Path) -> None:
    rows: list[Row] = [{"text": "bb c", "label": -1.0} for _ in range(4)]
    trainer = trainer_of(tmp_path, tiny(num_labels=1), train_dataset=rows)
    assert trainer.train().training_loss > 0
    assert trainer.predict(rows).label_ids.tolist() == [-1.0] * 4
    unlabelled = [{**row, "label": -1} for row in rows]
    assert trainer.predict(unlabelled).label_ids is None


@pytest.mark.parametrize("form", [texts, ids])
@pytest.mark.parametrize("where", [0, 3])
@pytest.mark.parametrize("gone", [False, True])
def test_a_missing_label_has_a_row(
    tmp_path: Path, form: Any, where: int, gone: bool
) -> None:
    rows = form()
    rows[where]["label"] = None
    if gone:
        del rows[where]["label"]
    says = rf"train_dataset\[{where}\]: 'label' is missing, expected a label in every"
    with pytest.raises(InputError, match=says):
        trainer_of(tmp_path, train_dataset=rows).train()
    says = rf"row {where}: 'label' is missing, expected a label in every row"
    if form is texts:
        with pytest.raises(InputError, match=says):
            tokenize_dataset(rows, tokenizer)


# ------------------------------------------------------------ a collator of one's own


def of_text(batch: list[Row]) -> Row:
    """Makes a batch from the caller's own rows."""
    words = [[len(word) + 4 for word in row["text"].split()] for row in batch]
    width = max(map(len, words))
    return {
        "input_ids": np.array([row + [0] * (width - len(row)) for row in words]),
        "attention_mask": np.array(
            [[1] * len(row) + [0] * (width - len(row)) for row in words]
        ),
        "labels": np.array([["no", "yes"].index(row["label"]) for row in batch]),
    }


@pytest.mark.parametrize("known", [None, tokenizer])
def test_a_collator_gets_the_rows_of_the_caller(tmp_path: Path, known: Any) -> None:
    data = [{**row, "label": ["no", "yes"][row["label"]]} for row in texts()]
    plain, own = tiny(), tiny()
    options = {"train_sampling_strategy": "random", "eval_dataset": texts()}
    trainer_of(tmp_path / "a", plain, **options).train()
    options |= {"train_dataset": data, "eval_dataset": data, "eval_strategy": "epoch"}
    trainer = trainer_of(
        tmp_path / "b",
        own,
        data_collator=of_text,
        processing_class=known,
        load_best_model_at_end=True,
        **options | {"save_strategy": "epoch"},
    )
    trainer.train()
    for one, other in zip(plain.parameters(), own.parameters(), strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), atol=1e-5)
    assert np.isfinite(trainer.evaluate()["eval_loss"])
    data[3]["text"] += " ddd"
    with pytest.raises(ea.CheckpointError, match="other training data"):
        trainer.train(resume_from_checkpoint=True)
    trainer.args.per_device_train_batch_tokens = 64
    with pytest.raises(ea.ConfigError, match=r"batch_tokens with rows without input"):
        trainer.train()


def pictures(count: int = 8, size: int = 8) -> list[Row]:
    random = np.random.default_rng(0)
    draw = random.standard_normal((count, 3, size, size)).astype(np.float32)
    return [
        {"pixel_values": one, "labels": i % 2, "file": f"{i}.png"}
        for i, one in enumerate(draw)
    ]


def vit() -> Any:
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    options = {"image_size": 8, "patch_size": 4, "intermediate_size": 8}
    ea.manual_seed(0)
    return ea.ViTForImageClassification(ea.ViTConfig(**sizes, **options))


def stacked(rows: list[Row]) -> Row:
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def test_rows_of_pixels_are_stacked_as_transformers_does(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    rows, found = pictures(), []
    labelled = [{**row, "label": row["labels"]} for row in rows]
    plain = [{k: row[k] for k in ("pixel_values", "labels")} for row in rows]
    for number, (data, collator) in enumerate(
        [
            (rows, None),
            ([{k: row[k] for k in row if k != "labels"} for row in labelled], None),
            (rows, transformers.default_data_collator),
            (plain, stacked),
        ]
    ):
        trainer = trainer_of(
            tmp_path / str(number),
            vit(),
            train_dataset=data,
            eval_dataset=data,
            data_collator=collator,
            processing_class=None,
        )
        trainer.train()
        found.append([p.numpy().tobytes() for p in trainer.model.parameters()])
        assert trainer.predict(data).predictions.shape == (8, 2)
    assert found == [found[0]] * 4


def test_a_collator_may_get_the_pairs_of_an_image_folder(tmp_path: Path) -> None:
    rows, found = pictures(), []
    pairs = [(row["pixel_values"], row["labels"]) for row in rows]

    def joined(batch: list[Any]) -> Row:
        pixels, labels = zip(*batch, strict=True)
        return {"pixel_values": np.stack(pixels), "labels": np.array(labels)}

    class Folder:
        def __len__(self) -> int:
            return len(pairs)

        def __getitem__(self, index: int) -> Any:
            return pairs[index]

    for number, (data, collator) in enumerate(
        [(rows, None), (pairs, joined), (tuple(pairs), joined), (Folder(), joined)]
    ):
        given = {"train_dataset": data, "data_collator": collator, "save_steps": 2}
        given |= {"save_strategy": "steps"}
        given |= {"processing_class": None, "max_steps": 4}
        folder = tmp_path / str(number)
        trainer = trainer_of(folder, vit(), **given)
        trainer.train()
        assert trainer.predict(data).predictions.shape == (8, 2)
        found.append([p.numpy().tobytes() for p in trainer.model.parameters()])
        again = trainer_of(folder, vit(), **given)
        again.train(resume_from_checkpoint=folder / "checkpoint-2")
        found.append([p.numpy().tobytes() for p in again.model.parameters()])
    assert found == [found[0]] * 8
    with pytest.raises(InputError, match=r"\[0\] is a tuple, .* pass data_collator="):
        trainer_of(tmp_path, vit(), train_dataset=Folder()).train()
    given["class_weight"] = "balanced"
    with pytest.raises(ea.ConfigError, match=r"expected one class for each row"):
        trainer_of(tmp_path, vit(), **given).train()


def test_a_bad_row_of_a_shuffled_batch_is_named_by_its_data_set(tmp_path: Path) -> None:
    lost, turned = np.full((3, 8, 8), np.nan), np.zeros((8, 8, 3))
    for data, row, model, says in (
        (pictures(), {"pixel_values": lost}, vit(), r"\[0, 0, 0\] is nan"),
        (pictures(), {"pixel_values": turned}, vit(), " has the shape"),
        (ids(8), {"input_ids": []}, None, r" is float64 of shape \(0,\)"),
    ):
        data[5] = {**data[5], **row}
        options = {"per_device_train_batch_size": 4, "train_dataset": data}
        says = f"row 5 of the data set: {next(iter(row))}{says}"
        with pytest.raises(InputError, match=says):
            trainer_of(tmp_path, model, **options).train()


def test_rows_that_make_no_batch_of_pixels(tmp_path: Path) -> None:
    rows = pictures()
    mixed = [*rows[:3], *pictures(1, 4), *rows[3:]]
    lost = [*rows, {"labels": 0}]
    for data, message in {
        "mixed": (
            mixed,
            r"pixel_values has the shape \(3, 4, 4\), expected \(3, 8, 8\)",
        ),
        "lost": (lost, r"row 8 .* pixel_values has the shape \(\), expected"),
        "named": ([{"image": 1}], r"\[0\] has image, expected pixel_values; rename"),
    }.values():
        options = {"train_sampling_strategy": "sequential"}
        options |= {"per_device_train_batch_size": 16, "processing_class": tokenizer}
        with pytest.raises((InputError, ea.ConfigError), match=message):
            trainer_of(tmp_path, vit(), train_dataset=data, **options).train()


def test_a_collator_of_the_package_gets_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def padded(batch: list[Row]) -> Row:
        seen.extend(batch)
        ids = [row["input_ids"][:1] for row in batch]
        return {"input_ids": np.array(ids), "labels": np.zeros(len(ids), np.int64)}

    monkeypatch.setattr(padded, "__module__", "evolving_attention.data.collate")
    partial = functools.partial(padded)
    trainer_of(tmp_path, data_collator=partial).train()
    assert all("input_ids" in row for row in seen)
    with pytest.raises(ea.ConfigError, match="processing_class"):
        trainer_of(tmp_path, data_collator=partial, processing_class=None).train()


# ----------------------------------------------------------------- labels that are text

SENTIMENT = {"label2id": {"neg": 0, "pos": 1}}


def labelled(*labels: Any) -> list[Row]:
    return [{"text": "bb c", "label": label} for label in labels]


def frame(*labels: Any) -> Any:
    return pytest.importorskip("pandas").DataFrame(labelled(*labels))


def string_frame(*labels: Any) -> Any:
    return frame(*labels).astype({"label": "string"})


@pytest.mark.parametrize(
    ("options", "data", "says"),
    [
        (
            SENTIMENT,
            lambda: labelled("pos", "xxx"),
            r"train_dataset\[1\]: unknown label 'xxx', expected .* are neg, pos; corre",
        ),
        (SENTIMENT, lambda: frame(*["pos", None] * 6), r"\[1\]: 'label' is missing"),
        (SENTIMENT, lambda: frame(None, "pos"), r"\[0\]: 'label' is missing"),
        (SENTIMENT, lambda: string_frame("pos", None), r"\[1\]: 'label' is missing"),
        (SENTIMENT, lambda: Map(labelled("pos", None)), r"\[1\]: 'label' is missing"),
        (
            {"num_labels": 1, "problem_type": "regression"},
            lambda: labelled("1.5", "2"),
            r"are text \('1.5', '2'\), expected numbers, .*; convert them to numbers",
        ),
        ({}, lambda: labelled("a", "b", "c"), "'c'.*name them when you load it: label"),
        (SENTIMENT, lambda: labelled("a", "b"), "name them when you load it: label2id"),
    ],
)
def test_the_remedy_for_text_labels_fits(
    tmp_path: Path, options: Row, data: Any, says: str
) -> None:
    trainer = trainer_of(tmp_path, tiny(**options), train_dataset=data())
    with pytest.raises(InputError, match=says):
        trainer.train()


def test_text_labels_name_the_classes_of_a_model_without_names(tmp_path: Path) -> None:
    data = labelled("yes", "no", "yes", "yes")
    trainer = trainer_of(tmp_path, tiny(num_labels=2), train_dataset=data)
    with pytest.raises(InputError, match="name them when you load it"):
        trainer.predict(data)
    trainer.train()
    assert trainer.model.config.id2label == {0: "no", 1: "yes"}
    assert trainer.model.config.label2id == {"no": 0, "yes": 1}
    assert trainer.predict(data).label_ids.tolist() == [1, 0, 1, 1]
