"""The Trainer on the real core: matches transformers' Trainer, exact, safe."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_fake_model import accuracy, make_rows

import evolving_attention as ea
from evolving_attention.errors import ConfigError, InputError, NonFiniteError
from evolving_attention.training import Trainer, TrainerCallback, TrainingArguments

SIZES: dict[str, Any] = {
    "vocab_size": 30,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 16,
}


@pytest.fixture(autouse=True)
def restored_core(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # slow, and nothing crashes here
    threads = ea.get_num_threads()
    yield
    ea.set_num_threads(threads)
    ea.set_memory_limit(0)


def tiny_bert(dtype: str = "float32", **options: Any) -> Any:
    """Returns a BERT with evolving attention, identical for every call."""
    ea.manual_seed(0)
    config = ea.BertConfig(
        **SIZES, attention=ea.attention.Evolving(alpha=0.3, beta=0.2), **options
    )
    return ea.BertForSequenceClassification(config, dtype=dtype)


def make_trainer(folder: Path, model: Any, *callbacks: Any, **options: Any) -> Trainer:
    rows = options.pop("train_dataset", None) or make_rows(44)
    options = {
        "num_train_epochs": 3,
        "learning_rate": 5e-3,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "weight_decay": 0.01,
        "warmup_steps": 2,
        "save_strategy": "no",
        "logging_steps": 1,
        "disable_tqdm": True,
        **options,
    }
    return Trainer(
        model,
        TrainingArguments(str(folder), **options),
        train_dataset=rows,
        eval_dataset=make_rows(20, seed=2),
        compute_metrics=accuracy,
        callbacks=list(callbacks),
    )


def digest(model: Any) -> str:
    joined = b"".join(np.asarray(p.numpy()).tobytes() for p in model.parameters())
    return hashlib.sha256(joined).hexdigest()


# -------------------------------------------------------- matches transformers


def no_padding_ids(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replaces id 0, whose embedding torch never trains (padding_idx)."""
    return [{**row, "input_ids": [i or 1 for i in row["input_ids"]]} for row in rows]


def padded(batch: list[dict[str, Any]]) -> dict[str, Any]:
    """Collates a padded batch as transformers expects it."""
    import torch

    width = max(len(row["input_ids"]) for row in batch)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for i, row in enumerate(batch):
        ids[i, : len(row["input_ids"])] = torch.tensor(row["input_ids"])
        mask[i, : len(row["input_ids"])] = 1
    labels = torch.tensor([row["label"] for row in batch])
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


@pytest.mark.parametrize("accumulation", [1, 2])
def test_equal_to_transformers_trainer(tmp_path: Path, accumulation: int) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    config = transformers.BertConfig(
        **SIZES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    torch.manual_seed(0)
    theirs = transformers.BertForSequenceClassification(config)
    theirs.save_pretrained(tmp_path / "start")
    ours = ea.BertForSequenceClassification.from_pretrained(tmp_path / "start")
    rows, dev = no_padding_ids(make_rows(44)), no_padding_ids(make_rows(21, seed=2))
    common: dict[str, Any] = {
        "num_train_epochs": 2,
        "learning_rate": 2e-3,
        "adam_epsilon": 1e-5,  # smaller: Adam would amplify rounding to whole steps
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": accumulation,
        "weight_decay": 0.1,
        "warmup_steps": 3,
        "max_grad_norm": 0.5,
        "logging_steps": 1,
        "lr_scheduler_type": "cosine",
        "label_smoothing_factor": 0.1,
        "train_sampling_strategy": "sequential",
        "save_strategy": "no",
        "eval_strategy": "epoch",
        "disable_tqdm": True,
        "report_to": "none",
    }

    reference = transformers.Trainer(
        theirs,
        transformers.TrainingArguments(
            str(tmp_path / "theirs"),
            use_cpu=True,
            remove_unused_columns=False,
            **common,
        ),
        train_dataset=rows,
        eval_dataset=dev,
        data_collator=padded,
    )
    expected = reference.train()
    trainer = Trainer(
        ours,
        TrainingArguments(str(tmp_path / "ours"), **common),
        train_dataset=rows,
        eval_dataset=dev,
    )
    output = trainer.train()
    assert output.global_step == expected.global_step
    assert set(output.metrics) == set(expected.metrics) - {"total_flos"}
    assert output.training_loss == pytest.approx(expected.training_loss, abs=1e-4)
    pairs = list(
        zip(trainer.state.log_history, reference.state.log_history, strict=True)
    )
    for mine, his in pairs:
        assert set(mine) == set(his) - {"total_flos"}
        assert mine["step"] == his["step"]
        assert mine["epoch"] == pytest.approx(his["epoch"], abs=1e-4)
        for name in ("loss", "eval_loss", "grad_norm"):
            if name in mine:
                assert mine[name] == pytest.approx(float(his[name]), abs=1e-4), mine
        if "learning_rate" in mine:
            assert mine["learning_rate"] == pytest.approx(
                his["learning_rate"], abs=1e-9
            )
    for name, value in theirs.state_dict().items():
        np.testing.assert_allclose(
            ours.state_dict()[name], value.numpy(), atol=2e-4, err_msg=name
        )


def test_the_arguments_of_an_evaluation_are_those_of_transformers(
    tmp_path: Path,
) -> None:
    trainer, rows = make_trainer(tmp_path, tiny_bert()), make_rows(8)
    for work, prefix in ((trainer.evaluate, "eval"), (trainer.predict, "test")):
        for ignored in (None, ["hidden_states"], ()):
            for given, begins in (((), prefix), (("dev",), "dev")):
                found = work(rows, ignored, *given)
                metrics = found if isinstance(found, dict) else found.metrics
                assert f"{begins}_loss" in metrics
        message = r"ignore_keys='dev', .* metric_key_prefix='dev'"
        with pytest.raises(ConfigError, match=message):
            work(rows, "dev")
        for wrong in (None, ["hidden_states"]):
            with pytest.raises(
                ConfigError, match=r"metric_key_prefix=.*expected a str"
            ):
                work(rows, metric_key_prefix=wrong)


# ---------------------------------------------------------------- exactness


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_training_lowers_the_loss(tmp_path: Path, dtype: str) -> None:
    trainer = make_trainer(
        tmp_path,
        tiny_bert(dtype),
        bf16=dtype == "bfloat16",
        num_train_epochs=20,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=1,
    )
    before = trainer.evaluate(make_rows(44))["eval_loss"]
    trainer.train()
    assert trainer.evaluate(make_rows(44))["eval_loss"] < before - 0.2


def test_the_same_bits_for_any_number_of_threads(tmp_path: Path) -> None:
    digests = set()
    for threads in (1, 2, 3):
        model = tiny_bert()
        make_trainer(tmp_path / str(threads), model, num_threads=threads).train()
        digests.add(digest(model))
    assert len(digests) == 1


class Die(TrainerCallback):
    """Ends the run like a crash, in the middle of a chosen step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_pre_optimizer_step(self, args: Any, state: Any, c: Any, **kw: Any) -> None:
        if state.global_step == self.step:
            raise RuntimeError("the machine stopped")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("step", [1, 5, 6, 7, 16])
def test_resume_is_bit_identical(tmp_path: Path, dtype: str, step: int) -> None:
    options = {
        "bf16": dtype == "bfloat16",
        "save_strategy": "steps",
        "save_steps": 1,
        "save_total_limit": 1,
    }
    whole = tiny_bert(dtype)
    one = make_trainer(tmp_path / "a", whole, num_threads=1, **options)
    one.train()
    with pytest.raises(RuntimeError):
        make_trainer(tmp_path / "b", tiny_bert(dtype), Die(step), **options).train()
    stopped = tiny_bert(dtype)
    two = make_trainer(tmp_path / "b", stopped, num_threads=2, **options)
    two.train(resume_from_checkpoint=True)
    assert digest(whole) == digest(stopped)
    losses = [
        [
            (e["step"], e["loss"], e["grad_norm"])
            for e in t.state.log_history
            if "loss" in e
        ]
        for t in (one, two)
    ]
    assert losses[0] == losses[1]


OTHER_OPTIMIZERS: dict[str, dict[str, Any]] = {
    "adam": {},
    "radam": {"decoupled_weight_decay": True},
    "sgd": {"momentum": 0.9, "nesterov": True},
}


@pytest.mark.parametrize("name", OTHER_OPTIMIZERS)
def test_other_optimizers_train_and_resume(tmp_path: Path, name: str) -> None:
    options = {
        "optim": name,
        "optim_args": OTHER_OPTIMIZERS[name],
        "num_train_epochs": 1,
        "save_strategy": "steps",
        "save_steps": 1,
    }
    whole, stopped = tiny_bert(), tiny_bert()
    make_trainer(tmp_path / "a", whole, **options).train()
    assert digest(whole) != digest(tiny_bert())
    with pytest.raises(RuntimeError):
        make_trainer(tmp_path / "b", tiny_bert(), Die(3), **options).train()
    two = make_trainer(tmp_path / "b", stopped, **options)
    two.train(resume_from_checkpoint=True)
    assert type(two.optimizer) is ea.optim.OPTIMIZERS[name]
    assert digest(whole) == digest(stopped)


def test_checkpoints_are_models(tmp_path: Path) -> None:
    model = tiny_bert()
    make_trainer(tmp_path, model, save_strategy="epoch").train()
    loaded = ea.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "checkpoint-18"
    )
    assert digest(loaded) == digest(model)
    assert loaded.config.attention == model.config.attention


def test_short_memory_splits_batches(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "gradient_accumulation_steps": 1,
        "per_device_train_batch_size": 44,
        "num_train_epochs": 2,
        "train_sampling_strategy": "sequential",
    }
    quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    large = tiny_bert(**quiet)
    make_trainer(tmp_path / "a", large, skip_memory_metrics=False, **options).train()
    small = tiny_bert(**quiet)
    trainer = make_trainer(tmp_path / "b", small, auto_find_batch_size=True, **options)

    class Limit(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kw: Any) -> None:
            if state.global_step == 1:  # moments exist: allow a third of the batch
                ea.set_memory_limit(trainer_memory() + 250_000)

    trainer.add_callback(Limit())
    with pytest.warns(UserWarning, match="out of memory at step 2"):
        trainer.train()
    assert trainer.state.batch_splits >= 2
    for (name, a), (_, b) in zip(
        large.named_parameters(), small.named_parameters(), strict=True
    ):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=5e-4, err_msg=name)


def trainer_memory() -> int:
    from evolving_attention import _core

    _core.release_cached_memory()
    return int(_core.current_memory())


# ------------------------------------------------------------- non-finite values

PARAMETERS = [name for name, _ in tiny_bert().named_parameters()]


class Spoil(TrainerCallback):
    """Writes a bad value into a parameter, or into its moment, before step 3."""

    def __init__(self, name: str, value: float, moment: bool = False) -> None:
        self.name, self.value, self.moment = name, value, moment

    def on_step_begin(self, args: Any, state: Any, control: Any, **kw: Any) -> None:
        if state.global_step != 2:
            return
        tensor = dict(kw["model"].named_parameters())[self.name]
        if self.moment:
            names = [n for g in kw["optimizer"].param_groups for n in g["names"]]
            state_dict = kw["optimizer"].state_dict()
            tensor = state_dict[f"exp_avg.{names.index(self.name)}"]
        values = np.array(tensor.numpy())
        values.reshape(-1)[...] = self.value
        tensor.copy_(values)


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_bad_weight_is_found_within_the_step(tmp_path: Path, name: str) -> None:
    model = tiny_bert()
    trainer = make_trainer(
        tmp_path, model, Spoil(name, float("nan")), save_strategy="steps", save_steps=1
    )
    with pytest.raises(NonFiniteError) as caught:
        trainer.train()
    report = caught.value.report
    if "step" in report:  # found in the step itself
        assert (report["step"], report["kind"], report["tensor"]) == (
            3,
            "parameter",
            name,
        )
        assert len(report["row_ids"]) in (4, 8)
    else:  # a weight outside loss and gradients: found when it is saved
        assert report["tensor"] == name
    saved = sorted(p.name for p in tmp_path.glob("checkpoint-*"))
    assert saved == ["checkpoint-1", "checkpoint-2"]


@pytest.mark.parametrize("name", PARAMETERS[::4])
def test_a_bad_moment_is_found_one_step_later(tmp_path: Path, name: str) -> None:
    trainer = make_trainer(
        tmp_path, tiny_bert(), Spoil(name, float("nan"), moment=True)
    )
    with pytest.raises(NonFiniteError) as caught:
        trainer.train()
    assert caught.value.report["step"] == 4
    assert caught.value.report["tensor"] == f"exp_avg of {name}"


def test_an_overflow_inside_is_traced_to_its_layer(tmp_path: Path) -> None:
    name = "bert.encoder.layer.1.output.dense.weight"
    trainer = make_trainer(tmp_path, tiny_bert(), Spoil(name, 1e38))
    with pytest.raises(NonFiniteError) as caught:
        trainer.train()
    report = caught.value.report
    assert (report["step"], report["parameters"]) == (3, [])
    assert report["kind"] in ("activation", "gradient")
    if report["kind"] == "activation":
        assert report["tensor"] == "hidden_states[2]"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_bad_label_is_traced_to_its_row(tmp_path: Path, value: float) -> None:
    rows = make_rows(44, regression=True)
    rows[23]["label"] = value
    model = tiny_bert(num_labels=1)
    trainer = make_trainer(tmp_path, model, train_dataset=rows)
    with pytest.raises(NonFiniteError) as caught:
        trainer.train()
    assert caught.value.report["bad_row_ids"] == [23]
    assert caught.value.report["tensor"] == "labels"
    assert all(np.isfinite(p.numpy()).all() for p in model.parameters())


# --------------------------------------------------------------------- input data


def test_text_is_tokenized_on_the_way(tmp_path: Path, minilm: Path) -> None:
    from evolving_attention.data.table import TableDataset

    tokenizer = ea.AutoTokenizer.from_pretrained(str(minilm))
    config = ea.BertConfig(**{**SIZES, "vocab_size": tokenizer.vocab_size})
    table = TableDataset(
        {"sentence": ["A cat sat.", "Sat cat a the."] * 8, "label": [1, 0] * 8},
        text_columns=("sentence",),
    )
    args = TrainingArguments(
        str(tmp_path), num_train_epochs=1, disable_tqdm=True, save_strategy="epoch"
    )
    model = ea.BertForSequenceClassification(config)
    with pytest.raises(ConfigError, match="processing_class=tokenizer"):
        Trainer(model, args, train_dataset=table).train()
    plain = [dict(table[i]) for i in range(len(table))]
    columns = Trainer(model, args, train_dataset=plain, processing_class=tokenizer)
    assert columns.evaluate(plain)["eval_loss"] > 0
    trainer = Trainer(model, args, train_dataset=table, processing_class=tokenizer)
    assert trainer.train().global_step == 2
    names = {p.name for p in (tmp_path / "checkpoint-2").iterdir()}
    assert {"tokenizer.json", "config.json", "model.safetensors"} <= names


def test_rows_without_labels_cannot_train(tmp_path: Path) -> None:
    rows = [{"input_ids": [1, 2]}]
    with pytest.raises(InputError, match="no loss, expected 'label' or 'labels'"):
        make_trainer(tmp_path, tiny_bert(), train_dataset=rows).train()
    output = make_trainer(tmp_path, tiny_bert()).predict(rows)
    assert output.predictions.shape == (1, 2)
    assert output.label_ids is None


@pytest.mark.parametrize(
    ("row", "part"),
    [
        ({"input_ids": [1, 30], "label": 0}, "30"),
        ({"input_ids": [1] * 17, "label": 0}, "max_position_embeddings 16"),
        ({"input_ids": [1], "label": 2}, "2"),
    ],
)
def test_bad_rows_are_input_errors(tmp_path: Path, row: Any, part: str) -> None:
    rows = [*make_rows(8), row]
    with pytest.raises(InputError) as caught:
        make_trainer(tmp_path, tiny_bert(), train_dataset=rows).train()
    assert part in str(caught.value)


def masked(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Collator for masked language modelling; chooses tokens with numpy.random."""
    from evolving_attention.data.collate import collate_packed

    batch = collate_packed([{"input_ids": row["input_ids"]} for row in rows])
    chosen = np.random.random(len(batch["input_ids"])) < 0.3
    chosen[0] = True
    batch["labels"] = np.where(chosen, batch["input_ids"], -100)
    batch["input_ids"] = np.where(chosen, 1, batch["input_ids"])
    return batch


def mlm_trainer(folder: Path, *callbacks: Any, **options: Any) -> Trainer:
    ea.manual_seed(0)
    config = ea.BertConfig(
        **SIZES, attention=ea.attention.Evolving(alpha=0.3, beta=0.2)
    )
    args = TrainingArguments(
        str(folder),
        num_train_epochs=2,
        learning_rate=5e-3,
        save_steps=1,
        disable_tqdm=True,
        **options,
    )
    return Trainer(
        ea.BertForMaskedLM(config),
        args,
        train_dataset=make_rows(40),
        data_collator=masked,
        callbacks=list(callbacks),
    )


def test_language_models_train_resume_and_predict(tmp_path: Path) -> None:
    whole = mlm_trainer(tmp_path / "a")
    first = whole.train().training_loss
    assert np.isfinite(first)
    with pytest.raises(RuntimeError):
        mlm_trainer(tmp_path / "b", Die(6)).train()
    stopped = mlm_trainer(tmp_path / "b")
    stopped.train(resume_from_checkpoint=True)
    assert digest(whole.model) == digest(stopped.model)
    rows = make_rows(9)
    tokens = sum(len(row["input_ids"]) for row in rows)
    output = whole.predict(rows)
    assert output.predictions.shape == (tokens, SIZES["vocab_size"])
    assert output.label_ids.shape == (tokens,)
