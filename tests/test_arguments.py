"""TrainingArguments: Hugging Face's names and defaults, and an answer to mistakes."""

from __future__ import annotations

import copy
import dataclasses
import typing
from typing import Any

import pytest

from evolving_attention.cli.translate_arguments import TranslationTrainingArguments
from evolving_attention.errors import ConfigError
from evolving_attention.training import argument_rules
from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.refused_arguments import REFUSED

# Fields whose default differs from transformers' on purpose.
OUR_OWN_DEFAULTS = {
    "train_sampling_strategy",  # packed batches of similar length
    "output_dir",  # theirs becomes trainer_output later
    "lr_scheduler_kwargs",
    "report_to",
    "warmup_ratio",
    "remove_unused_columns",  # custom collators may read any column
}


def test_defaults_are_those_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    theirs = {f.name: f for f in dataclasses.fields(transformers.TrainingArguments)}
    compared = 0
    for field in dataclasses.fields(TrainingArguments):
        if field.name in OUR_OWN_DEFAULTS or field.name not in theirs:
            continue
        default = theirs[field.name].default
        if default is dataclasses.MISSING:
            default = theirs[field.name].default_factory()
        assert field.default == getattr(default, "value", default), field.name
        compared += 1
    assert compared > 40


def test_arguments_in_range_read_no_annotations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Reading them takes longer than one prediction."""
    monkeypatch.setattr(argument_rules, "get_type_hints", None)
    TrainingArguments("out", num_train_epochs=2)


def test_every_option_of_transformers_is_known_or_refused_with_a_reason() -> None:
    transformers = pytest.importorskip("transformers")
    ours = {f.name for f in dataclasses.fields(TrainingArguments)}
    lost = [
        f.name
        for f in dataclasses.fields(transformers.TrainingArguments)
        if f.name not in ours and f.name not in REFUSED
    ]
    assert lost == []


def test_every_field_has_a_help_text_and_a_type_hint() -> None:
    hints = typing.get_type_hints(TrainingArguments)
    for field in dataclasses.fields(TrainingArguments):
        assert len(field.metadata["help"]) > 10, field.name
        assert field.name in hints


MISTAKES: list[tuple[dict[str, Any], list[str]]] = [
    ({"learning_rate": -1e-5}, ["learning_rate=-1e-05", ">= 0"]),
    ({"learning_rate": float("nan")}, ["learning_rate=nan", "finite"]),
    ({"learning_rate": "2e-5"}, ["learning_rate='2e-5'", "a number"]),
    ({"weight_decay": -0.1}, ["weight_decay", ">= 0"]),
    ({"adam_beta1": 1.0}, ["adam_beta1=1.0", "< 1"]),
    ({"adam_beta2": -0.1}, ["adam_beta2", ">= 0"]),
    ({"adam_epsilon": 0}, ["adam_epsilon", "> 0"]),
    ({"max_grad_norm": -1}, ["max_grad_norm", ">= 0"]),
    ({"per_device_train_batch_size": 0}, ["per_device_train_batch_size=0", ">= 1"]),
    ({"per_device_eval_batch_size": 1.5}, ["per_device_eval_batch_size", "whole"]),
    ({"per_device_train_batch_tokens": 0}, ["per_device_train_batch_tokens", ">= 1"]),
    (
        {"per_device_train_batch_tokens": 9, "train_sampling_strategy": "random"},
        ["train_sampling_strategy='random'", "with per_device_train_batch_tokens"],
    ),
    (
        {"per_device_train_batch_tokens": 9, "group_by_length": False},
        ["group_by_length=False, expected True with per_device_train_batch_tokens"],
    ),
    (
        {"per_device_train_batch_tokens": 9, "dataloader_drop_last": True},
        ["dataloader_drop_last=True", "with per_device_train_batch_tokens"],
    ),
    (
        {"per_device_train_batch_tokens": 9, "per_device_train_batch_size": 4},
        ["per_device_train_batch_size=4", "per_device_train_batch_tokens=None"],
    ),
    ({"gradient_accumulation_steps": 0}, ["gradient_accumulation_steps", ">= 1"]),
    ({"gradient_accumulation_steps": True}, ["gradient_accumulation_steps=True"]),
    ({"num_train_epochs": -1}, ["num_train_epochs", ">= 0"]),
    ({"max_steps": 10.5}, ["max_steps=10.5", "whole"]),
    ({"label_smoothing_factor": 1.5}, ["label_smoothing_factor", "< 1"]),
    ({"warmup_ratio": 2.0}, ["warmup_ratio", "<= 1"]),
    ({"warmup_steps": 2.5}, ["warmup_steps=2.5", "whole"]),
    ({"warmup_steps": 5, "warmup_ratio": 0.1}, ["warmup_ratio", "warmup_steps=5"]),
    ({"seed": -1}, ["seed=-1", ">= 0"]),
    ({"num_threads": 0}, ["num_threads=0", ">= 1"]),
    ({"save_total_limit": 0}, ["save_total_limit=0", ">= 1"]),
    ({"save_steps": 0}, ["save_steps=0", "> 0"]),
    ({"logging_steps": 1.5}, ["logging_steps=1.5", "whole"]),
    ({"eval_strategy": "epochs"}, ["eval_strategy='epochs'", "did you mean 'epoch'"]),
    ({"save_strategy": "never"}, ["save_strategy='never'", "'no'"]),
    ({"lr_scheduler_type": "linaer"}, ["'linaer'", "did you mean 'linear'"]),
    ({"lr_scheduler_kwargs": "{bad"}, ["lr_scheduler_kwargs", "JSON"]),
    ({"lr_scheduler_kwargs": "[1]"}, ["lr_scheduler_kwargs", "dict"]),
    ({"optim": "adafactor"}, ["optim='adafactor'", "adamw"]),
    ({"optim_args": "momentum=0.9"}, ["optim_args", "JSON"]),
    ({"optim_args": [0.9]}, ["optim_args", "dict"]),
    ({"optim_args": {"momentum": 0.9}}, ["'adamw_torch_fused'", "'momentum'", "eps"]),
    ({"report_to": "wandb"}, ["report_to='wandb'", "'tensorboard'", "log.jsonl"]),
    ({"report_to": ["tensorboard", "mlflow"]}, ["report_to='mlflow'"]),
    ({"on_nonfinite": "ignore"}, ["on_nonfinite='ignore'", "'stop'"]),
    ({"on_save_error": "skip"}, ["on_save_error='skip'", "'continue'"]),
    ({"device": "gpu"}, ["device='gpu'", "'cuda'", "ea.devices()"]),
    ({"device": "cuda:"}, ["device='cuda:'", "'cuda:1'"]),
    ({"device": "cuda", "use_cpu": True}, ["device='cuda'", "use_cpu=True"]),
    ({"precision": "float16"}, ["precision='float16'", "'auto'"]),
    ({"precision": "auto", "bf16": True}, ["precision='auto'", "bf16=True"]),
    ({"precision": "float32", "bf16": True}, ["precision='float32'", "bf16=True"]),
    ({"deterministic": False}, ["deterministic=False", "True"]),
    ({"load_best_model_at_end": True}, ["load_best_model_at_end", "eval_strategy"]),
    (
        {"load_best_model_at_end": True, "eval_strategy": "epoch"},
        ["load_best_model_at_end", "save_strategy='steps'"],
    ),
    (
        {
            "load_best_model_at_end": True,
            "eval_strategy": "steps",
            "eval_steps": 200,
            "save_steps": 500,
        },
        ["save_steps=500", "multiple of eval_steps=200"],
    ),
    ({"save_strategy": "best"}, ["save_strategy='best'", "metric_for_best_model"]),
    ({"fp16": True}, ["fp16=True is not supported", "use bf16=True"]),
    (
        {"gradient_checkpointing_kwargs": {"use_reentrant": False}},
        [
            "gradient_checkpointing_kwargs={'use_reentrant'",
            "recomputation has no options",
        ],
    ),
    (
        {"gradient_checkpointing": True, "activation_checkpointing": False},
        ["gradient_checkpointing=True", "activation_checkpointing=False", "two names"],
    ),
    ({"torch_compile": True}, ["torch_compile=True", "does not use PyTorch"]),
    ({"logging_nan_inf_filter": True}, ["logging_nan_inf_filter", "on_nonfinite"]),
    ({"dataloader_num_workers": 4}, ["dataloader_num_workers=4", "no loader workers"]),
    ({"push_to_hub": True}, ["push_to_hub=True", "huggingface_hub"]),
    ({"evaluation_strategy": "epoch"}, ["evaluation_strategy", "eval_strategy"]),
    ({"learning_rat": 1e-5}, ["'learning_rat'", "did you mean 'learning_rate'"]),
]


def test_the_help_of_label_smoothing_says_the_range_of_the_check():
    for owner in (TrainingArguments, TranslationTrainingArguments):
        texts = {f.name: f.metadata["help"] for f in dataclasses.fields(owner)}
        assert texts["label_smoothing_factor"] == "Label smoothing, in [0, 1)."


@pytest.mark.parametrize(("given", "parts"), MISTAKES, ids=lambda v: str(v)[:40])
def test_mistakes_name_field_value_and_fix(
    given: dict[str, Any], parts: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        TrainingArguments("out", **given)
    for part in [*parts, "expected"]:
        assert part in str(caught.value)


def test_harmless_refused_options_pass() -> None:
    args = TrainingArguments("out", fp16=False, dataloader_num_workers=0, fsdp="")
    assert not hasattr(args, "fp16")


@pytest.mark.parametrize(
    ("given", "steps", "expected"),
    [
        ({"warmup_steps": 7}, 100, 7),
        ({"warmup_steps": 0.1}, 101, 11),
        ({"warmup_ratio": 0.06}, 100, 6),
        ({}, 100, 0),
    ],
)
def test_warm_up_by_steps_or_share(
    given: dict[str, Any], steps: int, expected: int
) -> None:
    assert TrainingArguments("out", **given).get_warmup_steps(steps) == expected


def test_intervals_below_one_are_shares_of_the_run() -> None:
    args = TrainingArguments("out", logging_steps=0.05, save_steps=250)
    assert args.every("logging_steps", 1001) == 51
    assert args.every("save_steps", 1001) == 250


def test_derived_values() -> None:
    args = TrainingArguments(
        "out",
        eval_strategy="steps",
        logging_steps=50,
        save_steps=100,
        load_best_model_at_end=True,
        lr_scheduler_kwargs='{"num_cycles": 2}',
        group_by_length=False,
    )
    assert args.eval_steps == 50
    assert (args.metric_for_best_model, args.greater_is_better) == ("loss", False)
    assert args.lr_scheduler_kwargs == {"num_cycles": 2}
    assert args.train_sampling_strategy == "random"
    better = TrainingArguments("o", eval_strategy="epoch", metric_for_best_model="f1")
    assert better.greater_is_better is True
    for name in ("eval_perplexity", "rmse", "mse", "eval_mae", "invalid_outputs"):
        error = TrainingArguments("o", metric_for_best_model=name)
        assert error.greater_is_better is False
    for spelling in ("gradient_checkpointing", "activation_checkpointing"):
        for on in (True, False):
            given = TrainingArguments("out", **{spelling: on})
            assert given.gradient_checkpointing is on
            assert given.activation_checkpointing is on
    assert TrainingArguments("out").gradient_checkpointing is False
    assert TrainingArguments("out", bf16=True).dtype == "bfloat16"
    assert TrainingArguments("out").dtype is None


def test_arguments_go_through_a_dict_and_a_copy() -> None:
    args = TrainingArguments("out", learning_rate=3e-5, report_to="tensorboard")
    assert TrainingArguments(**args.to_dict()) == args
    assert copy.deepcopy(args) == args
    assert dataclasses.replace(args, seed=1).seed == 1


@pytest.mark.parametrize(
    ("names", "greater"),
    [
        ("loss eval_loss eval_logloss eval_runtime wer eval_cer eval_mape", False),
        ("word_error_rate bits_per_byte pseudo_perplexity eval_RMSE", False),
        ("eval_nrmse smape msle eval_bpb eval_neg_error_rate", False),
        ("mean_squared_error max_error mean_absolute_percentage_error", False),
        ("neg_mean_squared_error eval_neg_root_mean_squared_error", True),
        ("neg_log_loss power glossier answer samples_per_second rmse_gain", True),
    ],
)
def test_errors_are_known_by_the_last_words_of_their_names(
    names: str, greater: bool
) -> None:
    for name in names.split():
        args = TrainingArguments("out", metric_for_best_model=name)
        assert args.greater_is_better is greater, name
