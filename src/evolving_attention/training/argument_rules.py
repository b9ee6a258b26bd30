"""Checks of the training arguments, and their error messages.

:mod:`.refused_arguments` lists Hugging Face options that have no meaning here; they
are refused with a reason, never silently ignored.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, get_type_hints

from evolving_attention.errors import ConfigError, suggestion
from evolving_attention.field_types import describe
from evolving_attention.optim import factory
from evolving_attention.training import schedules
from evolving_attention.training.refused_arguments import REFUSED

REPORTERS = ("tensorboard",)
_AT_LEAST_ONE = (
    "per_device_train_batch_size",
    "per_device_train_batch_tokens",
    "per_device_eval_batch_size",
    "gradient_accumulation_steps",
    "save_total_limit",
    "num_threads",
)
_AT_LEAST_ZERO = (
    "learning_rate",
    "weight_decay",
    "max_grad_norm",
    "num_train_epochs",
    "warmup_steps",
    "eval_delay",
    "dataloader_prefetch_factor",
)
_ERRORS = (  # ends of the names of metrics that are better small
    *("loss", "perplexity", "error", "error_rate", "mse", "mae", "mape", "msle"),
    *("_wer", "_cer", "_ae", "_bpb", "bits_per_byte", "invalid_outputs", "runtime"),
)
_NEGATED = tuple(f"_neg_{word}_" for word in ("mean", "median", "root", "max", "log"))
DEVICES = re.compile(r"auto|cpu|cuda(:\d{1,4})?")


def refuse(field: str, value: Any, expected: str, fix: str) -> ConfigError:
    """Returns the error for a bad value: field, value, expected value and remedy."""
    return ConfigError(
        f"TrainingArguments: {field}={value!r}, expected {expected}; {fix}"
    )


def is_greater_better(metric: str) -> bool:
    """Whether larger values of a metric are better: unless it is a loss or an error.

    Their names end so: "loss", "error", "error_rate", "perplexity", "mse", "mae", and
    the like. scikit-learn's scores, such as "neg_mean_squared_error", have their sign
    changed.

    Example:
        >>> names = ("eval_accuracy", "eval_rmse", "neg_mean_squared_error")
        >>> [is_greater_better(name) for name in names]
        [True, False, True]
    """
    name = f"_{metric.lower().removeprefix('eval_')}"
    return name.startswith(_NEGATED) or not name.endswith(_ERRORS)


def checked_keywords(known: set[str], given: dict[str, Any]) -> dict[str, Any]:
    """Drops harmless refused options from ``given``; raises for other unknown ones.

    Raises:
        ConfigError: an option is unknown, or has no meaning in this library.
    """
    kept = {}
    for name, value in given.items():
        if name in known:
            kept[name] = value
        elif name in REFUSED:
            harmless, reason = REFUSED[name]
            if value not in harmless:
                raise ConfigError(refusal(name, value, reason))
        else:
            hint = suggestion(name, sorted(known), "see help(TrainingArguments)")
            raise ConfigError(
                f"TrainingArguments: unknown option {name!r} (value {value!r}), "
                f"expected one of its {len(known)} fields; {hint}"
            )
    return kept


def refusal(name: str, value: Any, reason: str) -> str:
    """Returns the error text for an option that has no meaning here."""
    return (
        f"TrainingArguments: {name}={value!r} is not supported, expected it left out; "
        f"{reason}"
    )


def _check_range(
    a: Any,
    field: str,
    low: float,
    high: float = math.inf,
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> None:
    """Rejects a number outside [low, high]; ends are excluded on request."""
    value = getattr(a, field)
    if value is None:
        return
    too_low = value < low or (open_low and value == low)
    if not too_low and not (value > high or (open_high and value == high)):
        return
    kind = describe(get_type_hints(type(a))[field]).removesuffix(" or None")
    span = f"{kind} {'>' if open_low else '>='} {low:g}"
    if high < math.inf:
        span += f" and {'<' if open_high else '<='} {high:g}"
    raise refuse(field, value, span, f"give a {'larger' if too_low else 'smaller'} one")


def check_numbers(a: Any) -> None:
    """Checks the ranges of all numeric fields."""
    for field in _AT_LEAST_ONE:
        _check_range(a, field, 1)
    for field in _AT_LEAST_ZERO:
        _check_range(a, field, 0)
    for field in ("adam_epsilon", "ddp_timeout", "ddp_bucket_cap_mb"):
        _check_range(a, field, 0, open_low=True)
    for field in ("adam_beta1", "adam_beta2", "label_smoothing_factor"):
        _check_range(a, field, 0, 1, open_high=True)
    _check_range(a, "max_steps", -1)
    _check_range(a, "warmup_ratio", 0, 1)
    for field in ("seed", "data_seed"):
        _check_range(a, field, 0, 2**63 - 1)
    for event, strategy in (
        ("logging_steps", a.logging_strategy),
        ("eval_steps", a.eval_strategy),
        ("save_steps", a.save_strategy),
    ):
        if strategy == "steps":
            _check_range(a, event, 0, open_low=True)
            _check_whole_above_one(a, event)
    _check_whole_above_one(a, "warmup_steps")


def _check_whole_above_one(a: Any, field: str) -> None:
    """Rejects 1.5: a count is whole, and a share of the run is below 1."""
    value = getattr(a, field)
    if value > 1 and value != int(value):
        expected = "a whole number, or a fraction of the run below 1"
        raise refuse(field, value, expected, "round")


def check_choices(a: Any) -> None:
    """Checks text values that depend on the build, other values or a pattern."""
    if not DEVICES.fullmatch(a.device):
        raise refuse(
            "device",
            a.device,
            "'auto', 'cpu', 'cuda' or 'cuda:1'",
            "ea.devices() lists those of this machine",
        )
    if a.use_cpu and a.device not in ("auto", "cpu"):
        raise refuse("device", a.device, "'cpu' with use_cpu=True", "drop one")
    if a.bf16 and a.precision in ("float32", "auto"):
        raise refuse(
            "precision",
            a.precision,
            "'bfloat16' with bf16=True",
            "drop one of the two",
        )
    unknown = [name for name in a.report_to if name not in REPORTERS]
    if unknown:
        raise refuse(
            "report_to",
            unknown[0],
            "'none' or 'tensorboard'",
            "every run also writes log.jsonl into output_dir",
        )
    if a.lr_scheduler_type not in schedules.NAMES:
        schedules.multiplier(a.lr_scheduler_type, 0, 1)  # raises with the list
    for field, example in (
        ("lr_scheduler_kwargs", "{'num_cycles': 2}"),
        ("optim_args", "{'momentum': 0.9}"),
    ):
        value = getattr(a, field)
        if not isinstance(value, dict):
            expected = "a dict or a JSON object"
            raise refuse(field, value, expected, f"for example {example}")
    factory.check_options(a.optim, a.optim_args)


def check_combinations(a: Any) -> None:
    """Rejects fields that contradict one another."""
    if a.deterministic is not True:
        raise refuse(
            "deterministic",
            a.deterministic,
            "True",
            "the core has no faster mode that would give up equal bits",
        )
    if a.warmup_ratio and a.warmup_steps:
        raise refuse(
            "warmup_ratio",
            a.warmup_ratio,
            f"one of the two, warmup_steps={a.warmup_steps} is set too",
            "keep warmup_steps (a fraction below 1 is a share of the run)",
        )
    if a.max_steps <= 0 and a.num_train_epochs == 0 and a.do_train:
        raise refuse("num_train_epochs", 0, "more than 0", "or give max_steps")
    if a.per_device_train_batch_tokens is not None:
        size = a.per_device_train_batch_size
        if size != type(a).per_device_train_batch_size:  # the class has its default
            tokens = a.per_device_train_batch_tokens
            raise refuse(
                "per_device_train_batch_size",
                size,
                f"tokens or sequences, per_device_train_batch_tokens={tokens} is set "
                "too",
                "leave it out, or give per_device_train_batch_tokens=None",
            )
        for field, usable in (
            ("train_sampling_strategy", "group_by_length"),
            ("dataloader_drop_last", False),
        ):
            value: Any = getattr(a, field)
            if value != usable:
                if field == "train_sampling_strategy" and a.group_by_length is False:
                    field, value, usable = "group_by_length", False, True
                raise refuse(
                    field,
                    value,
                    f"{usable!r} with per_device_train_batch_tokens",
                    "leave one of the two out",
                )
    needs_metric = a.load_best_model_at_end or a.save_strategy == "best"
    if a.save_strategy == "best" and a.metric_for_best_model is None:
        raise refuse(
            "save_strategy",
            "best",
            "metric_for_best_model with it",
            "name the metric",
        )
    if needs_metric and a.eval_strategy == "no":
        field = (
            "load_best_model_at_end" if a.load_best_model_at_end else "save_strategy"
        )
        raise refuse(
            field,
            getattr(a, field),
            "an evaluation to choose by, but eval_strategy='no'",
            "set eval_strategy='epoch' or 'steps'",
        )
    if a.load_best_model_at_end and a.save_strategy != "best":
        if a.eval_strategy != a.save_strategy:
            raise refuse(
                "load_best_model_at_end",
                True,
                f"equal strategies, but eval_strategy={a.eval_strategy!r} and "
                f"save_strategy={a.save_strategy!r}",
                "set both to 'epoch' or both to 'steps'",
            )
        if a.eval_strategy == "steps" and not _is_multiple(a.save_steps, a.eval_steps):
            raise refuse(
                "save_steps",
                a.save_steps,
                f"a multiple of eval_steps={a.eval_steps} with load_best_model_at_end",
                f"for example save_steps={a.eval_steps}",
            )


def settle_checkpointing(a: Any) -> None:
    """Merges the two names of gradient checkpointing into one boolean.

    Raises:
        ConfigError: they contradict each other.
    """
    given = [a.gradient_checkpointing, a.activation_checkpointing]
    if None not in given and bool(given[0]) != bool(given[1]):
        raise refuse(
            "gradient_checkpointing",
            given[0],
            f"one of the two, activation_checkpointing={given[1]!r} is set too",
            "they are one option under two names: give one, or the same to both",
        )
    a.gradient_checkpointing = a.activation_checkpointing = any(given)


def _is_multiple(many: float, one: float) -> bool:
    """Whether many = k·one, for step counts and for fractions of the run."""
    ratio = many / one
    return abs(ratio - round(ratio)) < 1e-9 and round(ratio) >= 1


def parse_json_object(field: str, value: Any) -> Any:
    """Parses JSON text (the command line's form) to a dict; None gives {}."""
    if not isinstance(value, str):
        return value or {}
    try:
        return json.loads(value)
    except ValueError as error:
        raise refuse(field, value, "a JSON object", f"JSON says: {error}") from error


def parse_class_weight(value: Any) -> Any:
    """Parses ``class_weight``, possibly JSON; its classes are checked with the data."""
    if isinstance(value, str) and value != "balanced":
        expected = 'balanced, or a dict (JSON) such as {"good": 2}'
        try:
            read = json.loads(value)
        except ValueError as error:
            why = f"JSON says: {error}"
            raise refuse("class_weight", value, expected, why) from error
        if not isinstance(read, dict):
            raise refuse("class_weight", value, expected, "name each class")
        return read
    return value
