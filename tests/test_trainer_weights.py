"""Weighted losses, multi-label classification, and regression in the Trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_models import NO_DROPOUT, tiny

import evolving_attention as ea
from evolving_attention import functional as F
from evolving_attention.data.features import tokenize_dataset
from evolving_attention.data.rows import load_file
from evolving_attention.errors import CheckpointError, ConfigError, InputError
from evolving_attention.training import Trainer, TrainingArguments

Row = dict[str, Any]


def rows(count: int = 24, **columns: Any) -> list[Row]:
    """Returns rows, one third of class 1, with further columns by index."""
    random = np.random.default_rng(0)
    return [
        {
            "input_ids": random.integers(5, 40, 4 + i % 3).tolist(),
            "label": int(i % 3 == 1),
            **{name: column(i) for name, column in columns.items()},
        }
        for i in range(count)
    ]


def trainer_of(folder: Path, model: Any, data: Any, **options: Any) -> Trainer:
    given = {
        name: options.pop(name)
        for name in ("compute_loss_func", "eval_dataset", "processing_class")
        if name in options
    }
    args: dict[str, Any] = {
        "max_steps": 3,
        "disable_tqdm": True,
        "save_strategy": "no",
        "logging_strategy": "no",
        **options,
    }
    arguments = TrainingArguments(str(folder / "out"), **args)
    return Trainer(model, arguments, train_dataset=data, **given)


def weights(model: Any) -> np.ndarray:
    return np.concatenate([np.asarray(p).ravel() for _, p in model.named_parameters()])


def trained(folder: Path, data: Any, **options: Any) -> np.ndarray:
    model = tiny(**options.pop("model", {}))
    trainer_of(folder, model, data, **options).train()
    return weights(model)


# -------------------------------------------------------------------------- weights


class Weighted(Trainer):
    """The formula by hand: sum of w · loss / B, where the mean of w is 1."""

    by_row: np.ndarray

    def compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        assert "sample_weight" not in inputs
        inputs = dict(inputs)
        labels = inputs.pop("labels")
        first = np.asarray(inputs["input_ids"])[inputs["sequence_offsets"][:-1]]
        each = F.cross_entropy(model(**inputs).logits, labels, reduction="none")
        return F.mean(each * np.array([self.by_row[i] for i in first], np.float32))


def numbered(count: int = 24) -> list[Row]:
    """Returns rows whose first token identifies them."""
    found = rows(count)
    for i, row in enumerate(found):
        row["input_ids"][0] = 5 + i
    return found


@pytest.mark.parametrize("form", ["names", "numbers", "balanced", "column", "both"])
def test_the_loss_is_the_weighted_mean(tmp_path: Path, form: str) -> None:
    data = numbered()
    labels = np.array([row["label"] for row in data])
    by_class = np.array([1.0, 3.0])
    column = 0.5 + np.arange(24) % 4
    given: dict[str, Any] = {
        "names": {"class_weight": {"LABEL_1": 3.0}},
        "numbers": {"class_weight": '{"0": 1, "1": 3}'},
        "balanced": {"class_weight": "balanced"},
        "column": {},
        "both": {"class_weight": {1: 3.0}},
    }[form]
    expected = by_class[labels]
    if form == "balanced":
        expected = 24 / (2 * np.bincount(labels)[labels])
    elif form == "column":
        expected = column
    elif form == "both":
        expected = column * by_class[labels]
    if form in ("column", "both"):
        given = {**given, "data": [
            {**row, "sample_weight": column[i]} for i, row in enumerate(data)
        ]}  # fmt: skip
    by_hand, own = tiny(), tiny()
    # A gradient that is clipped, or divided as by AdamW, hardly shows the weights.
    steps = {"optim": "sgd", "learning_rate": 0.01, "max_grad_norm": 0.0}
    reference = Weighted(
        by_hand, trainer_of(tmp_path, own, data, **steps).args, train_dataset=data
    )
    reference.by_row = np.zeros(40)
    reference.by_row[5:29] = expected / expected.mean()
    reference.train()
    trainer_of(tmp_path, own, given.pop("data", data), **steps, **given).train()
    np.testing.assert_allclose(weights(own), weights(by_hand), rtol=0, atol=2e-6)
    assert np.abs(weights(own) - trained(tmp_path, data, **steps)).max() > 1e-4


def test_equal_weights_change_no_bit(tmp_path: Path) -> None:
    plain = trained(tmp_path, rows())
    for data, options in (
        (rows(sample_weight=lambda i: 2.0), {}),
        (rows(), {"class_weight": {0: 5, 1: 5}}),
    ):
        np.testing.assert_array_equal(plain, trained(tmp_path, data, **options))


def test_a_row_of_weight_zero_does_not_count(tmp_path: Path) -> None:
    data = rows(sample_weight=lambda i: float(i != 4))
    spoiled = [dict(row) for row in data]
    spoiled[4]["label"] = 1 - spoiled[4]["label"]
    np.testing.assert_array_equal(trained(tmp_path, data), trained(tmp_path, spoiled))


def test_evaluation_is_not_weighted(tmp_path: Path) -> None:
    model, data = tiny(), rows(8)
    plain = trainer_of(tmp_path, model, data, eval_dataset=data).evaluate()
    weighted = trainer_of(
        tmp_path, model, data, eval_dataset=data, class_weight="balanced"
    ).evaluate()
    assert weighted["eval_loss"] == plain["eval_loss"]


def test_weights_in_frames_and_beside_texts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pandas = pytest.importorskip("pandas")
    data = rows(sample_weight=lambda i: 1.0 + i % 2)
    expected = trained(tmp_path, data)
    frame = pandas.DataFrame(data)
    np.testing.assert_array_equal(trained(tmp_path, frame), expected)

    def tokenizer(texts: list[str], **options: Any) -> dict[str, Any]:
        return {"input_ids": [list(map(int, text.split())) for text in texts]}

    frame["text"] = [" ".join(map(str, row["input_ids"])) for row in data]
    texts = frame[["text", "label", "sample_weight"]]
    texts.to_csv(tmp_path / "train.csv", index=False)
    table = load_file(tmp_path / "train.csv", label_column="label")
    features = tokenize_dataset(table, tokenizer)
    for given in (texts, texts.to_dict("records"), table, features, features[:]):
        found = trained(tmp_path, given, processing_class=tokenizer)
        np.testing.assert_array_equal(found, expected)
    told = caplog.text
    assert "label 'label', weights 'sample_weight'; text_columns=" in told
    assert "not used" not in told


def test_weights_of_regression_and_of_several_labels(tmp_path: Path) -> None:
    models: dict[str, Any] = {
        "one": {"num_labels": 1},
        "several": {"num_labels": 3, "problem_type": "multi_label_classification"},
    }
    for name, model in models.items():
        label = (lambda i: i % 5) if name == "one" else (lambda i: [i % 2, 1, 0])
        data = rows(label=label, sample_weight=lambda i: float(i != 4))
        other = [dict(row) for row in data]
        other[4]["label"] = 9 if name == "one" else [1, 0, 1]
        found = trained(tmp_path, data, model=model)
        np.testing.assert_array_equal(found, trained(tmp_path, other, model=model))


def test_splitting_batches_keeps_the_weighted_loss(tmp_path: Path) -> None:
    args: dict[str, Any] = {
        "class_weight": "balanced",
        "optim": "sgd",
        "learning_rate": 0.1,
        "train_sampling_strategy": "sequential",
    }
    whole = trained(tmp_path, rows(), model=dict(NO_DROPOUT), **args)
    args |= {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
    parts = trained(tmp_path, rows(), model=dict(NO_DROPOUT), **args)
    np.testing.assert_allclose(parts, whole, rtol=0, atol=2e-6)


@pytest.mark.parametrize("accumulated", [2, 4])
def test_rows_without_a_class_do_not_dilute_the_weighted_loss(
    tmp_path: Path, accumulated: int
) -> None:
    """They change nothing, and weights near 1 change nearly nothing."""
    args: dict[str, Any] = {"optim": "sgd", "learning_rate": 0.1, "max_grad_norm": 0}
    args |= {"train_sampling_strategy": "sequential", "max_steps": 1}
    column = 0.5 + np.arange(8) % 4
    data = rows(8, sample_weight=lambda i: column[i])
    for i in (1, 2, 3):  # of the first 4, or of the first and second 2
        data[i] |= {"label": -100, "sample_weight": 50.0}
    model = dict(NO_DROPOUT)
    whole = trained(tmp_path, data, model=model, **args)
    labelled = [row for row in data if row["label"] != -100]
    expected = trained(tmp_path, labelled, model=model, **args)
    np.testing.assert_allclose(whole, expected, rtol=0, atol=2e-6)
    plain = [{**row, "sample_weight": 1.0} for row in data]
    for weight in (1.0, 1.0 + 1e-7):
        plain[0]["sample_weight"] = weight
        found = trained(tmp_path, plain, model=model, **args)
        without = trained(tmp_path, rows(8, label=lambda i: data[i]["label"]),
                          model=model, **args)  # fmt: skip
        np.testing.assert_allclose(found, without, rtol=0, atol=2e-6)
    size = 8 // accumulated
    args |= {"per_device_train_batch_size": size}
    args |= {"gradient_accumulation_steps": accumulated}
    parts = trained(tmp_path, data, model=model, **args)
    np.testing.assert_allclose(parts, whole, rtol=0, atol=2e-6)


def test_other_weights_are_not_mixed_into_a_run(tmp_path: Path) -> None:
    first = {"save_strategy": "steps", "save_steps": 1}
    trainer_of(tmp_path, tiny(), rows(), class_weight={1: 2}, **first).train()
    for other in ({}, {"class_weight": {1: 3}}):
        with pytest.raises(
            CheckpointError, match="used other weights of rows or class"
        ):
            trainer_of(tmp_path, tiny(), rows(), **other).train("auto")
    trainer_of(tmp_path, tiny(), rows(), class_weight={1: 2}, max_steps=4).train("auto")


def loss(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
    return F.cross_entropy(outputs.logits, labels)


MISTAKES: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "class": (rows(), {"class_weight": {"good": 2}}, ConfigError,
              r"has the class 'good', expected classes of the model: LABEL_0, LABEL_1"),
    "number": (rows(), {"class_weight": {5: 2}}, ConfigError, "has the class 5, expec"),
    "negative": (rows(), {"class_weight": {0: -1}}, ConfigError, "is -1, expected a"),
    "word": (rows(), {"class_weight": "ballanced"}, ConfigError,
             r"class_weight='ballanced', expected balanced, or a dict \(JSON\)"),
    "no dict": (rows(), {"class_weight": "[1, 2]"}, ConfigError, "expected balanced"),
    "text": (rows(sample_weight=lambda i: "x"), {}, InputError, "expected one number"),
    "below 0": (rows(sample_weight=lambda i: 1 - i), {}, InputError,
                "sample_weight of row 2 is -1.0, expected a finite number from 0"),
    "zeros": (rows(sample_weight=lambda i: 0), {}, InputError, "of all training rows"),
    "own loss": (rows(), {"class_weight": "balanced", "compute_loss_func": loss},
                 ConfigError, "class_weight with compute_loss_func, expected one of"),
    "scores": (rows(label=lambda i: i / 3), {"class_weight": "balanced"}, ConfigError,
               "expected one class for each row of train_dataset"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_weights_that_cannot_be_used(tmp_path: Path, name: str) -> None:
    data, options, error, says = MISTAKES[name]
    model = tiny(num_labels=1) if name == "scores" else tiny()
    with pytest.raises(error, match=says):
        trainer_of(tmp_path, model, data, **options).train()


# ------------------------------------------------------- multi-label classification

TAGS = {"id2label": {0: "funny", 1: "long", 2: "old"}, **NO_DROPOUT}
SEVERAL = {**TAGS, "problem_type": "multi_label_classification"}


def tags(i: int) -> list[str]:
    return [name for bit, name in enumerate(TAGS["id2label"].values()) if i >> bit & 1]


def bits(i: int) -> list[int]:
    return [i >> bit & 1 for bit in range(3)]


def test_several_labels_train_evaluate_and_predict(tmp_path: Path) -> None:
    expected = None
    for label in (tags, bits, lambda i: np.array(bits(i), np.float32),
                  lambda i: set(tags(i))):  # fmt: skip
        model = tiny(**SEVERAL)
        data = rows(label=label)
        trainer = trainer_of(tmp_path, model, data, eval_dataset=data)
        before = trainer.evaluate()["eval_loss"]
        trainer.train()
        found = trainer.predict(data)
        targets = np.array([bits(i) for i in range(24)])
        np.testing.assert_array_equal(found.label_ids, targets)
        x = found.predictions.astype(np.float64)
        loss = (np.logaddexp(0, x) - x * targets).mean()
        assert found.metrics["test_loss"] == pytest.approx(loss, rel=1e-5)
        assert loss < before
        expected = weights(model) if expected is None else expected
        np.testing.assert_array_equal(weights(model), expected)


def test_several_labels_beside_texts(tmp_path: Path) -> None:
    def tokenizer(texts: list[str], **options: Any) -> dict[str, Any]:
        return {"input_ids": [list(map(int, text.split())) for text in texts]}

    data = rows(label=tags)
    texts = [
        {"text": " ".join(map(str, row["input_ids"])), "label": row["label"]}
        for row in data
    ]
    found = trained(tmp_path, texts, model=SEVERAL, processing_class=tokenizer)
    np.testing.assert_array_equal(found, trained(tmp_path, data, model=SEVERAL))


def test_a_saved_model_of_several_labels_gives_a_probability_to_each(
    tmp_path: Path,
) -> None:
    model = tiny(**SEVERAL)
    model.save_pretrained(tmp_path)
    loaded = ea.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert loaded.config.problem_type == "multi_label_classification"

    def tokenizer(texts: list[str], **options: Any) -> dict[str, Any]:
        return {"input_ids": [[5 + len(text)] for text in texts]}

    with ea.no_grad():
        logits = np.asarray(loaded(np.array([[8]])).logits, np.float64)[0]
    found = loaded.predict(["abc"], tokenizer, top_k=None)[0]
    chances = {one["label"]: one["score"] for one in found}
    for i, name in TAGS["id2label"].items():
        assert chances[name] == pytest.approx(1 / (1 + np.exp(-logits[i])), rel=1e-6)


SEVERAL_MISTAKES: dict[str, tuple[dict[str, Any], Any, str]] = {
    "not asked for": (TAGS, tags, r"\[0\] has the labels .*, expected one label; for a "
                      "list of labels .* problem_type='multi_label_classification'"),
    "unknown": (SEVERAL, lambda i: ["new"], r"\[0\]: the labels are \['new'\], expect"
                r"ed a list of names \(funny, long, old\), or of 3 numbers 0 or 1"),
    "numbers": (SEVERAL, lambda i: [0, 2], r"the labels are \[0, 2\], expected a list"),
    "one": (SEVERAL, lambda i: "funny", r"the labels are funny, expected a list"),
}  # fmt: skip


@pytest.mark.parametrize("name", SEVERAL_MISTAKES)
def test_labels_that_are_not_several(tmp_path: Path, name: str) -> None:
    options, label, says = SEVERAL_MISTAKES[name]
    with pytest.raises(InputError, match=says):
        trainer_of(tmp_path, tiny(**options), rows(label=label)).train()


def test_a_call_needs_labels_of_the_models_problem() -> None:
    ids = np.ones((2, 4), np.int64)
    with pytest.raises(
        InputError, match=r"labels have shape \(2,\), expected \[B, 3\] of"
    ):
        tiny(**SEVERAL)(ids, labels=[0, 1])
    with pytest.raises(
        InputError, match=r"labels have shape \(2, 3\), expected \[B\], on"
    ):
        tiny(**TAGS)(ids, labels=[[0, 1, 0], [1, 0, 0]])


# ------------------------------------------------------------------------ regression


def test_whole_numbers_are_scores_where_the_problem_is_regression(
    tmp_path: Path,
) -> None:
    model: dict[str, Any] = {"num_labels": 1, "problem_type": "regression"}
    whole = trained(tmp_path, rows(label=lambda i: i % 5), model=model)
    decimal = trained(tmp_path, rows(label=lambda i: float(i % 5)), model=model)
    np.testing.assert_array_equal(whole, decimal)
    for wrong in ({"num_labels": 3}, {}):
        with pytest.raises(ConfigError, match="expected regression with 1 label"):
            tiny(problem_type="regression", **wrong)


def test_a_mean_over_no_row_has_no_gradient():
    x = ea.Tensor(np.ones((1, 4), np.float32), requires_grad=True)
    loss = F.cross_entropy(x, [-1], ignore_index=-1, weight=np.ones(4))
    loss.backward()
    assert np.isnan(loss.item())
    assert x.grad.tolist() == [[0, 0, 0, 0]]


# ------------------------------------------------------------- rows without a weight


@pytest.mark.parametrize("row", [0, 5])
def test_a_missing_weight_has_a_row(tmp_path: Path, row: int) -> None:
    data = rows(sample_weight=lambda i: 1.0 + i % 2)
    del data[row]["sample_weight"]
    says = rf"train_dataset\[{row}\]: sample_weight is missing, expected a number in"
    with pytest.raises(InputError, match=says):
        trainer_of(tmp_path, tiny(), data).train()


@pytest.mark.parametrize("given", ["balanced", {1: 2.0}])
def test_a_class_below_0_has_no_weight(tmp_path: Path, given: Any) -> None:
    data = rows(label=lambda i: -100 if i == 7 else i % 2)
    says = r"label of train_dataset\[7\] is -100, expected classes from 0"
    with pytest.raises(ConfigError, match=says):  # it is a score like any other
        trainer_of(tmp_path, tiny(num_labels=1), data, class_weight=given).train()


@pytest.mark.parametrize("given", ["balanced", {1: 2.0}])
def test_class_weights_leave_out_rows_without_a_class(
    tmp_path: Path, given: Any
) -> None:
    data = rows(label=lambda i: -100 if i % 4 == 2 else int(i % 3 == 1))
    labelled = [row for row in data if row["label"] != -100]
    options = {"optim": "sgd", "learning_rate": 0.1, "max_grad_norm": 0}
    options |= {"per_device_train_batch_size": 24, "class_weight": given}
    found = trained(tmp_path, data, model=dict(NO_DROPOUT), **options)
    expected = trained(tmp_path, labelled, model=dict(NO_DROPOUT), **options)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)
    labels, by_row = seen(tmp_path, data[:7], twice, class_weight="balanced")
    by_class = np.where(labels == 1, 5 / 4, 5 / 6)  # 3 of class 0, 2 of class 1
    np.testing.assert_allclose(by_row[labels >= 0], by_class[labels >= 0])
    none = trainer_of(tmp_path, tiny(), rows(label=lambda i: -100), class_weight=given)
    with pytest.raises(InputError, match="weights of all training rows with a label"):
        none.train()


# ------------------------------------------------------- rows that a collator moves


def padded(data: list[Row]) -> Row:
    batch = ea.data.collate.collate_padded(data)
    return {name: np.asarray(value) for name, value in batch.items()}


def by_length(data: list[Row]) -> Row:
    return padded(sorted(data, key=lambda row: len(row["input_ids"])))


def twice(data: list[Row]) -> Row:
    return padded([row for row in data for _ in range(2)])


def one_hot(data: list[Row]) -> Row:
    batch = padded(data)
    return {**batch, "labels": np.eye(2)[batch["labels"]]}


class Seen(Trainer):
    """Records the labels and weights of the rows."""

    def compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        self.seen = np.asarray(inputs["labels"]), np.asarray(inputs["sample_weight"])
        return super().compute_loss(model, inputs)


def seen(folder: Path, data: Any, collator: Any, **options: Any) -> Any:
    options["train_sampling_strategy"] = "sequential"
    made = trainer_of(folder, tiny(**options.pop("model", {})), data, **options)
    trainer = Seen(made.model, made.args, train_dataset=data, data_collator=collator)
    trainer.train()
    return trainer.seen


def test_weights_of_classes_follow_the_labels_of_the_batch(tmp_path: Path) -> None:
    for collator, size in ((by_length, 8), (twice, 16), (padded, 8)):
        labels, found = seen(tmp_path, rows(), collator, class_weight="balanced")
        assert len(labels) == size
        np.testing.assert_array_equal(found, np.where(labels == 1, 1.5, 0.75))
    several = {"problem_type": "multi_label_classification"}
    labels, found = seen(tmp_path, rows(), one_hot, class_weight={1: 4}, model=several)
    np.testing.assert_array_equal(found, np.where(labels[:, 1] == 1, 2, 0.5))


def from_0(data: list[Row]) -> Row:
    batch = padded(data)
    return {**batch, "labels": batch["labels"] - 1}


@pytest.mark.parametrize("given", ["class_weight", "sample_weight"])
def test_weights_keep_to_their_rows_if_labels_are_numbered_anew(
    tmp_path: Path, given: str
) -> None:
    """Regression: the weight of the data set's class 1 went to the batch's class 1."""
    own = {"sample_weight": lambda i: 1.0 + i % 2} if given == "sample_weight" else {}
    data = rows(label=lambda i: 1 + int(i % 3 == 1), **own)
    more = {} if own else {"class_weight": {1: 1.0, 2: 4.0}}
    labels, found = seen(tmp_path, data, from_0, model={"num_labels": 3}, **more)
    numbered, kept = seen(tmp_path, data, padded, model={"num_labels": 3}, **more)
    np.testing.assert_array_equal(labels, numbered - 1)
    np.testing.assert_array_equal(found, kept)
    assert len(set(found.tolist())) == 2


@pytest.mark.parametrize("num_labels", [1, 2])
def test_weights_of_rows_need_these_rows(tmp_path: Path, num_labels: int) -> None:
    label = (lambda i: i / 3) if num_labels == 1 else (lambda i: int(i % 3 == 1))
    data = rows(label=label, sample_weight=lambda i: 1.0 + i % 2)
    model = {"num_labels": num_labels}
    seen(tmp_path, data, padded, model=model)
    for collator in (by_length, twice):
        with pytest.raises(InputError, match="made other rows than those it was given"):
            seen(tmp_path, data, collator, model=model)
