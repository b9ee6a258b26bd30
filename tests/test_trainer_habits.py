"""Habits from Hugging Face's Trainer: accepted, or an error names the alternative."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_models import tiny

import evolving_attention as ea
from evolving_attention import functional as F
from evolving_attention.errors import ConfigError, InputError
from evolving_attention.training import Trainer, TrainerCallback, TrainingArguments

Row = dict[str, Any]


def rows(count: int = 24, **more: Any) -> list[Row]:
    random = np.random.default_rng(0)
    return [
        {
            "input_ids": random.integers(5, 40, 4 + i % 3).tolist(),
            "label": i % 2,
            **more,
        }
        for i in range(count)
    ]


def options(folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "output_dir": str(folder),
        "num_train_epochs": 1,
        "disable_tqdm": True,
        "save_strategy": "no",
        **more,
    }


def trainer_of(folder: Path, model: Any = None, **given: Any) -> Trainer:
    """Returns a Trainer; keywords of Trainer and TrainingArguments may be mixed."""
    known = set(TrainingArguments.__dataclass_fields__)
    args = {name: given.pop(name) for name in [*given] if name in known}
    given.setdefault("train_dataset", rows())
    given.setdefault("eval_dataset", rows(8))
    model = tiny() if model is None and "model_init" not in given else model
    return Trainer(model, TrainingArguments(**options(folder, **args)), **given)


def weights(model: Any) -> list[bytes]:
    return [np.asarray(p).tobytes() for _, p in model.named_parameters()]


# --------------------------------------------------------------------- arguments


def test_arguments_may_be_a_dict(tmp_path: Path) -> None:
    trainer = Trainer(tiny(), options(tmp_path, seed=3), train_dataset=rows())
    assert isinstance(trainer.args, TrainingArguments)
    assert (trainer.args.seed, trainer.args.per_device_train_batch_size) == (3, 8)
    assert trainer.train().global_step == 3
    with pytest.raises(ConfigError, match="did you mean 'learning_rate'"):
        Trainer(tiny(), {"learning_rat": 1e-4})


def test_torch_is_told_from_ours(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(theirs, lambda step: 1.0)
    ours = ea.optim.AdamW(tiny().parameters())
    with pytest.raises(
        ConfigError, match=r"model is a torch\..*Linear, expected a mod"
    ):
        Trainer(torch.nn.Linear(2, 2), options(tmp_path))
    for pair, says in (
        (
            (theirs, None),
            r"is torch\.optim\.sgd\.SGD, .*; use ea\.optim\.SGD\(model\.p",
        ),
        ((torch.optim.Adam, None), r"torch\.optim\.adam\.Adam, .* ea\.optim\.AdamW\("),
        ((ours, schedule), r"the schedule is torch\..*LambdaLR.*lr_scheduler_type"),
    ):
        with pytest.raises(ConfigError, match=says):
            trainer_of(tmp_path, optimizers=pair)


@pytest.mark.parametrize("wanted", [5, 0.5, ["a"]])
def test_what_names_no_checkpoint_is_refused(tmp_path: Path, wanted: Any) -> None:
    says = r"resume_from_checkpoint=.*, expected True, 'auto' or the path of a"
    with pytest.raises(ConfigError, match=says):
        trainer_of(tmp_path).train(wanted)


def needs_a_count(outputs: Any, labels: Any) -> Any:
    return None


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "tokenizer": ({"tokenizer": object()}, r"pass processing_class=tokenizer"),
    "optimizer": ({"optimizers": 3}, r"is a int, expected a pair; .*\(optimizer, None"),
    "class": ({"optimizers": (ea.optim.AdamW, None)}, r"pass AdamW\(…\)"),
    "args": ({"args": "out"}, r"args is a builtins\.str, .* TrainingArguments\('out'"),
    "no model": ({"model": None}, "none of the two of model and model_init is given"),
    "two models": ({"model_init": tiny}, "both of model and model_init is given"),
    "a class": ({"model": ea.BertModel}, "model is the class BertModel, expected a mo"),
    "a name": (
        {"model": "bert-base"},
        r"model is the name 'bert-base', expected a model; load it by Auto\w+\.from",
    ),
    "another object": ({"model": object()}, r"model is a builtins\.object, expected a"),
    "no result": (
        {"model": None, "model_init": lambda: None},
        "the result of model_init is None, expected a model",
    ),
    "loss": (
        {"compute_loss_func": needs_a_count},
        r"num_items_in_batch.*, expected compute_loss_func\(outputs, labels, num_items",
    ),
    "smoothing": (
        {
            "compute_loss_func": lambda outputs, labels, num_items_in_batch: None,
            "args": {"label_smoothing_factor": 0.1},
        },
        r"label_smoothing_factor=0\.1 with compute_loss_func",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told_before_anything_is_done(name: str) -> None:
    given, says = MISTAKES[name]
    with pytest.raises(ConfigError, match=says):
        Trainer(**{"model": tiny(), "train_dataset": rows(), **given})


def test_a_model_that_is_made_needs_no_optimizer(tmp_path: Path) -> None:
    own = ea.optim.AdamW(tiny().parameters())
    with pytest.raises(ConfigError, match="model_init with optimizers"):
        trainer_of(tmp_path, model_init=tiny, optimizers=(own, None))


# --------------------------------------------------------------------- model_init


def test_model_init_makes_a_model_for_each_run(tmp_path: Path) -> None:
    made: list[Any] = []
    config = tiny().config

    def init(trial: Any) -> Any:
        assert trial is None
        made.append(ea.BertForSequenceClassification(config))
        return made[-1].train()

    trainer = trainer_of(tmp_path, model_init=init, seed=7)
    assert trainer.model is made[0]
    ea.manual_seed(7)
    assert weights(made[0]) == weights(tiny_of_seed(7))
    first = trainer.train()
    assert trainer.model is made[0]
    second = trainer.train()
    assert trainer.model is made[1]
    assert first.training_loss == second.training_loss
    assert weights(made[0]) == weights(made[1]) != weights(tiny_of_seed(7))


def tiny_of_seed(seed: int) -> Any:
    config = tiny().config
    ea.manual_seed(seed)
    return ea.BertForSequenceClassification(config)


# -------------------------------------------------------------- compute_loss_func


def test_a_loss_of_ones_own_trains_and_evaluates(tmp_path: Path) -> None:
    counts: list[int] = []

    def mean(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
        assert outputs.loss is None
        counts.append(num_items_in_batch)
        return F.cross_entropy(outputs.logits, labels)

    own, plain = tiny(), tiny()
    trainer = trainer_of(tmp_path, own, compute_loss_func=mean)
    output = trainer.train()
    expected = trainer_of(tmp_path, plain).train()
    assert output.training_loss == pytest.approx(expected.training_loss, rel=1e-6)
    assert weights(own) == weights(plain)
    assert counts == [8, 8, 8]

    def double(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
        return F.cross_entropy(outputs.logits, labels) * 2.0

    loss = trainer.evaluate()["eval_loss"]
    trainer.compute_loss_func = double
    assert trainer.evaluate()["eval_loss"] == pytest.approx(2 * loss, rel=1e-6)


def test_a_loss_that_is_none_is_told(tmp_path: Path) -> None:
    def none(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
        return outputs.loss

    with pytest.raises(InputError, match="returned a NoneType, expected the mean loss"):
        trainer_of(tmp_path, compute_loss_func=none).train()


# ---------------------------------------------------------- metric_for_best_model


class Steps(TrainerCallback):
    def __init__(self) -> None:
        self.count = 0

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.count += 1


class Adds(Steps):
    """Callback that adds a metric, as callbacks of Hugging Face's Trainer may."""

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        kwargs["metrics"]["eval_acuracy"] = 0.5


def by_class(pair: Any) -> dict[str, float]:
    right = pair.predictions.argmax(-1) == pair.label_ids
    assert len(right) == 8
    return {f"accuracy_{c}": right[pair.label_ids == c].mean() for c in (0, 1)}


BEST = {"eval_strategy": "epoch", "metric_for_best_model": "acuracy_1"}


@pytest.mark.parametrize("sets", [False, True])
def test_a_mistyped_metric_is_told_before_the_first_step(
    tmp_path: Path, sets: bool
) -> None:
    steps, model = Steps(), tiny()
    before = weights(model)
    given: dict[str, Any] = {"eval_dataset": {"dev": rows(8)}} if sets else {}
    trainer = trainer_of(
        tmp_path, model, callbacks=[steps], compute_metrics=by_class, **given, **BEST
    )
    prefix = "eval_dev" if sets else "eval"
    with pytest.raises(ConfigError) as caught:
        trainer.train()
    assert str(caught.value) == (
        "metric_for_best_model='acuracy_1': no eval_acuracy_1 among the evaluation's "
        f"results, expected one of {prefix}_accuracy_0, {prefix}_accuracy_1, "
        f"{prefix}_loss; name one of them, or return it from compute_metrics"
    )
    assert steps.count == 0
    assert weights(model) == before
    trainer.args.metric_for_best_model = f"{prefix}_accuracy_1"
    trainer.train()
    assert steps.count == 3


def test_a_name_that_stands_in_the_code_is_not_tried_out(tmp_path: Path) -> None:
    values = iter([0.5])
    for metric in (lambda pair: {"f1": next(values)}, lambda pair: dict(f1=1.0)):
        best = {"eval_strategy": "epoch", "metric_for_best_model": "f1"}
        trainer = trainer_of(tmp_path, compute_metrics=metric, **best)
        trainer.train()
    assert next(values, None) is None


def test_the_check_changes_no_bit(tmp_path: Path) -> None:
    with_check, without = tiny(), tiny()
    best = {**BEST, "metric_for_best_model": "accuracy_1"}
    trainer_of(tmp_path, with_check, compute_metrics=by_class, **best).train()
    trainer_of(tmp_path, without, eval_strategy="epoch").train()
    assert weights(with_check) == weights(without)


def test_results_that_only_a_run_can_tell_are_waited_for(tmp_path: Path) -> None:
    best = {"eval_strategy": "epoch", "metric_for_best_model": "acuracy"}
    trainer = trainer_of(tmp_path, callbacks=[Adds()], **best)
    trainer.train()
    assert trainer.state.best_metric == 0.5

    class Own(Trainer):
        def evaluate(self, *given: Any, **named: Any) -> dict[str, float]:
            return {**super().evaluate(*given, **named), "eval_acuracy": 0.25}

    args = TrainingArguments(**options(tmp_path, **best))
    own = Own(tiny(), args, train_dataset=rows(), eval_dataset=rows(8))
    own.train()
    assert own.state.best_metric == 0.25


# ------------------------------------------------------------------------ logging


def losses(trainer: Trainer) -> list[int]:
    trainer.train()
    return [entry["step"] for entry in trainer.state.log_history if "loss" in entry]


def test_a_short_run_logs_its_loss(tmp_path: Path) -> None:
    assert losses(trainer_of(tmp_path)) == [1, 2, 3]
    assert losses(trainer_of(tmp_path, num_train_epochs=7)) == [*range(3, 22, 3)]
    assert losses(trainer_of(tmp_path, logging_steps=100)) == []


# ----------------------------------------------------------------------- bfloat16


def test_bf16_turns_a_float32_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model, loaded = tiny(), tiny(dtype="bfloat16")
    loaded.load_state_dict(dict(tiny().to("bfloat16").named_parameters()))
    trainer = trainer_of(tmp_path, model, bf16=True)
    assert model.dtype == "bfloat16"
    assert "the model is turned into bfloat16, with float32 master" in caplog.text
    trainer.train()
    trainer_of(tmp_path, loaded, bf16=True).train()
    assert weights(model) == weights(loaded)
    own = tiny()
    pair = (ea.optim.AdamW(own.parameters()), None)
    with pytest.raises(ConfigError, match=r"call model\.to\('bfloat16'\) before you"):
        trainer_of(tmp_path, own, bf16=True, optimizers=pair)
    with pytest.raises(ConfigError, match="the model is bfloat16, expected float32"):
        trainer_of(tmp_path, loaded, precision="float32")


# ------------------------------------------------------------------------ columns


def padded(batch: list[Row]) -> Row:
    """Pads a batch and records which columns it saw."""
    padded.columns = set(batch[0])  # type: ignore[attr-defined]
    width = max(len(row["input_ids"]) for row in batch)
    real = [len(row["input_ids"]) * [1] for row in batch]
    return {
        "input_ids": np.array(
            [r["input_ids"] + [0] * (width - len(r["input_ids"])) for r in batch]
        ),
        "attention_mask": np.array([r + [0] * (width - len(r)) for r in real]),
        "labels": np.array([row["label"] for row in batch]),
    }


@pytest.mark.parametrize(
    ("module", "option", "sees_text"),
    [
        ("mine", None, True),
        ("mine", True, False),
        ("transformers.data.data_collator", None, False),
        ("transformers.data.data_collator", False, True),
    ],
)
def test_columns_that_models_do_not_take(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    option: bool | None,
    sees_text: bool,
) -> None:
    monkeypatch.setattr(padded, "__module__", module)
    trainer = trainer_of(
        tmp_path,
        data_collator=padded,
        train_dataset=rows(text="a b"),
        remove_unused_columns=option,
    )
    assert trainer.train().global_step == 3
    columns = padded.columns  # type: ignore[attr-defined]
    assert columns == {"input_ids", "label"} | ({"text"} if sees_text else set())


def test_collators_of_transformers(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(35))]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    tokenizer = transformers.BertTokenizerFast(str(tmp_path / "vocab.txt"))
    collator = transformers.DataCollatorWithPadding(tokenizer)
    own, plain = tiny(), tiny()
    train = {"train_dataset": rows(text="a b")}
    trainer_of(tmp_path, own, data_collator=collator, **train).train()
    trainer_of(tmp_path, plain, **train).train()
    assert weights(own) == weights(plain)


# --------------------------------------------------------------- forms of the data


def columns_of(data: list[Row]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in data] for name in data[0]}


@pytest.mark.parametrize("form", ["frame", "columns", "arrays", "names"])
def test_data_in_other_forms_train_as_rows_do(tmp_path: Path, form: str) -> None:
    names = {0: "bad", 1: "good"}
    given: Any = columns_of(rows())
    if form == "frame":
        given = pytest.importorskip("pandas").DataFrame(given)
    elif form == "arrays":
        given["label"] = np.array(given["label"])
    elif form == "names":
        given["label"] = [names[label] for label in given["label"]]
    labels = {"id2label": names, "label2id": {"bad": 0, "good": 1}}
    own, plain = tiny(**labels), tiny(**labels)
    trainer = trainer_of(tmp_path, own, train_dataset=given, eval_dataset=given)
    trainer.train()
    expected = trainer_of(tmp_path, plain, eval_dataset=rows())
    expected.train()
    assert weights(own) == weights(plain)
    loss = expected.evaluate()["eval_loss"]
    assert trainer.evaluate()["eval_loss"] == loss
    both = trainer.evaluate({"a": given, "b": rows()})
    assert (both["eval_a_loss"], both["eval_b_loss"]) == (loss, loss)
    np.testing.assert_array_equal(
        trainer.predict(given).predictions, expected.predict(rows()).predictions
    )


def test_a_frame_of_texts_is_tokenised(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")

    def tokenizer(texts: list[str], **options: Any) -> dict[str, Any]:
        return {"input_ids": [[len(word) + 5 for word in t.split()] for t in texts]}

    frame = pandas.DataFrame({"text": ["a b c", "good one"] * 6, "label": [0, 1] * 6})
    given = {"train_dataset": frame, "processing_class": tokenizer}
    best = {**BEST, "eval_dataset": frame, "compute_metrics": lambda pair: {"f_1": 1.0}}
    with pytest.raises(ConfigError, match="expected one of eval_f_1, eval_loss; name"):
        trainer_of(tmp_path, **given, **best).train()  # also for tokenised texts
    assert trainer_of(tmp_path, **given).train().global_step == 2


FORMS: dict[str, tuple[Any, type[Exception], str]] = {
    "several": (
        {"train": rows(), "test": rows()},
        ConfigError,
        r"train_dataset is a dict of the data sets train, test, .* data\['train'\]",
    ),
    "lengths": (
        {"input_ids": [[5]], "label": [0, 1]},
        InputError,
        r"differ in length \(input_ids 1, label 2\)",
    ),
    "names": (
        [{**row, "label": name} for row, name in zip(rows(3), "cab", strict=True)],
        InputError,
        r"labels of train_dataset are text \('a', 'b', 'c'\), row 0 has 'c', expected "
        r"classes of the model, which are 'LABEL_0', 'LABEL_1'; .*"
        r"label2id=\{'a': 0, 'b': 1, 'c': 2\}",
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    given, error, says = FORMS[name]
    with pytest.raises(error, match=says):
        trainer_of(tmp_path, train_dataset=given).train()


# ------------------------------------------------------------------ names of classes


class Named(list[Row]):
    label_names = ("bad", "good")


def test_names_of_classes_travel_from_the_data_to_the_files(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, train_dataset=Named(rows()), save_strategy="epoch")
    trainer.train()
    trainer.save_model(str(tmp_path / "saved"))
    for folder in (tmp_path / "saved", tmp_path / "checkpoint-3"):
        loaded = ea.AutoModelForSequenceClassification.from_pretrained(folder)
        assert loaded.config.id2label == {0: "bad", 1: "good"}
        assert loaded.config.label2id == {"bad": 0, "good": 1}
    own = tiny(id2label={0: "no", 1: "yes"})
    says = r"of train_dataset are bad, good, those of the model no, yes, expected the s"
    with pytest.raises(ConfigError, match=says):
        trainer_of(tmp_path / "own", own, train_dataset=Named(rows())).train()
    assert own.config.id2label == {0: "no", 1: "yes"}


NAMED = {"bad": 0, "Good": 1, "odd": 2}


class Other(Named):
    label_names = ("good", "bad")


def table_of(data: list[Row]) -> Any:
    from evolving_attention.data.table import TableDataset

    texts = [" ".join(map(str, row["input_ids"])) for row in data]
    columns = {"text": texts, "label": [row["label"] for row in data]}
    names = {"text_columns": ("text",), "label_names": ("good", "bad")}
    return TableDataset(columns, **names)


def hub_of(data: list[Row]) -> Any:
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_list(data)
    return table.cast_column("label", datasets.ClassLabel(names=["good", "bad"]))


def word_ids(texts: list[str], **options: Any) -> dict[str, Any]:
    return {"input_ids": [[int(word) for word in text.split()] for text in texts]}


def packed_of(data: list[Row]) -> Any:
    from evolving_attention.data.features import tokenize_dataset

    return tokenize_dataset(table_of(data), word_ids)


@pytest.mark.parametrize("form", [Other, table_of, hub_of, packed_of])
def test_classes_in_another_order_are_matched_by_name(
    tmp_path: Path, form: Any
) -> None:
    """Label 0 of the data is "good", which is class 1 of the model."""
    data, model, plain = rows(), tiny(label2id=NAMED), tiny(label2id=NAMED)
    options = {"processing_class": word_ids, "class_weight": {"bad": 3.0}}
    trainer = trainer_of(tmp_path, model, train_dataset=form(data), **options)
    trainer.train()
    right = [1 - row["label"] for row in data]
    assert trainer.predict(form(data)).label_ids.tolist() == right
    swapped = [{**row, "label": 1 - row["label"]} for row in data]
    trainer_of(tmp_path, plain, train_dataset=swapped, **options).train()
    assert weights(model) == weights(plain)
    assert model.config.label2id == NAMED


def test_several_classes_in_another_order_are_matched_by_name(tmp_path: Path) -> None:
    names = {"bad": 0, "good": 1}
    model = tiny(label2id=names, problem_type="multi_label_classification")
    data = Other(rows(4, label=[1, 0]))
    found = trainer_of(tmp_path, model).predict(data)
    assert found.label_ids.tolist() == [[0, 1]] * 4


def test_numbers_are_no_names(tmp_path: Path) -> None:
    data = Other(rows(4))
    data.label_names = ("0", "1")
    found = trainer_of(tmp_path, tiny(label2id=NAMED)).predict(data)
    assert found.label_ids.tolist() == [0, 1, 0, 1]


def test_names_of_classes_survive_tokenising() -> None:
    from evolving_attention.data.features import tokenize_dataset
    from evolving_attention.data.table import TableDataset

    table = TableDataset(
        {"text": ["a b", "c"], "label": [0, 1]},
        text_columns=("text",),
        label_names=("bad", "good"),
    )
    ids: Any = lambda texts, **options: {"input_ids": [[1] * len(t) for t in texts]}  # noqa: E731
    found = tokenize_dataset(table, ids)
    assert found.label_names == found[:1].label_names == ("bad", "good")


def test_a_run_without_names_resumes_with_them(tmp_path: Path) -> None:
    whole = tiny()
    trainer_of(tmp_path / "whole", whole, max_steps=6).train()
    trainer_of(tmp_path, max_steps=6, save_steps=3, save_strategy="steps").train()
    named = tiny()
    trainer = trainer_of(
        tmp_path, named, train_dataset=Named(rows()), max_steps=6, save_strategy="no"
    )
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert named.config.id2label == {0: "bad", 1: "good"}
    assert weights(named) == weights(whole)


# ----------------------------------------------------------------------- one number


def test_compute_metrics_may_return_a_number(tmp_path: Path) -> None:
    def right(pair: Any) -> Any:
        return (pair.predictions.argmax(-1) == pair.label_ids).mean()

    assert trainer_of(tmp_path, compute_metrics=right).evaluate()["eval_metric"] >= 0
    best = {"eval_strategy": "epoch", "metric_for_best_model": "metric"}
    trainer = trainer_of(tmp_path, compute_metrics=right, **best)
    trainer.train()
    assert trainer.state.best_metric is not None
    trainer.args.metric_for_best_model = "accuracy"
    with pytest.raises(ConfigError, match=r"expected one of eval_loss, eval_metric"):
        trainer.train()
    for value in (None, "0.5", [0.5], True):
        with pytest.raises(ConfigError, match="expected a number, or a dict of names"):
            trainer_of(tmp_path, compute_metrics=lambda _, v=value: v).evaluate()
