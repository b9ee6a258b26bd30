"""What values the training arguments may have, and what to say when they do not.

Hugging Face options that have no meaning on this core stand in
:mod:`.refused_arguments`; they are refused with a reason, never silently ignored.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from typing import Any

from evolving_attention.errors import ConfigError
from evolving_attention.training import schedules
from evolving_attention.training.refused_arguments import REFUSED

STRATEGIES = ("no", "steps", "epoch")
SAVE_STRATEGIES = ("no", "steps", "epoch", "best")
SAMPLING = ("group_by_length", "random", "sequential")
OPTIMIZERS = ("adamw_torch_fused", "adamw_torch", "adamw")
REPORTERS = ("tensorboard",)
LOG_LEVELS = ("debug", "info", "warning", "error", "critical", "passive")
TOKEN_COUNTS = ("no", "all", "non_padding")
CHOICES: dict[str, tuple[str, ...]] = {
    "eval_strategy": STRATEGIES,
    "logging_strategy": STRATEGIES,
    "save_strategy": SAVE_STRATEGIES,
    "train_sampling_strategy": SAMPLING,
    "optim": OPTIMIZERS,
    "log_level": LOG_LEVELS,
    "include_num_input_tokens_seen": TOKEN_COUNTS,
    "on_nonfinite": ("stop", "skip", "warn"),
    "on_save_error": ("stop", "continue"),
}


DEVICES = re.compile(r"auto|cpu|cuda(:\d{1,4})?")


def refuse(field: str, value: Any, expected: str, fix: str) -> ConfigError:
    """The error for a bad value: names field, value, what was expected and a fix."""
    return ConfigError(
        f"TrainingArguments: {field}={value!r}, expected {expected}; {fix}"
    )


def checked_keywords(known: set[str], given: dict[str, Any]) -> dict[str, Any]:
    """Drop harmless refused options from ``given``; raise for all other strangers.

    Raises:
        ConfigError: an option is unknown, or has no meaning on this core.
    """
    kept = {}
    for name, value in given.items():
        if name in known:
            kept[name] = value
        elif name in REFUSED:
            harmless, reason = REFUSED[name]
            if value not in harmless:
                raise refuse(name, value, "it left out", reason)
        else:
            near = difflib.get_close_matches(name, sorted(known), n=1)
            hint = (
                f"did you mean {near[0]!r}?" if near else "see help(TrainingArguments)"
            )
            raise ConfigError(
                f"TrainingArguments: unknown option {name!r} (value {value!r}), "
                f"expected one of its {len(known)} fields; {hint}"
            )
    return kept


def _check_number(
    field: str,
    value: Any,
    low: float,
    high: float = math.inf,
    *,
    whole: bool = False,
    optional: bool = False,
    open_low: bool = False,
    open_high: bool = False,
) -> None:
    """Refuse what is not a finite number of [low, high] (ends left out on request)."""
    if value is None and optional:
        return
    kind = "a whole number" if whole else "a number"
    span = f"{kind} {'>' if open_low else '>='} {low:g}"
    if high < math.inf:
        span += f" and {'<' if open_high else '<='} {high:g}"
    numeric = isinstance(value, int if whole else (int, float))
    if isinstance(value, bool) or not numeric or not math.isfinite(value):
        raise refuse(field, value, span, "give a finite number")
    if value < low or (open_low and value == low):
        raise refuse(field, value, span, "give a larger one")
    if value > high or (open_high and value == high):
        raise refuse(field, value, span, "give a smaller one")


def check_numbers(a: Any) -> None:
    """Ranges of all numeric fields."""
    for field in ("per_device_train_batch_size", "per_device_eval_batch_size"):
        _check_number(field, getattr(a, field), 1, whole=True)
    _check_number(
        "gradient_accumulation_steps", a.gradient_accumulation_steps, 1, whole=True
    )
    _check_number("learning_rate", a.learning_rate, 0)
    _check_number("weight_decay", a.weight_decay, 0)
    _check_number("adam_beta1", a.adam_beta1, 0, 1, open_high=True)
    _check_number("adam_beta2", a.adam_beta2, 0, 1, open_high=True)
    _check_number("adam_epsilon", a.adam_epsilon, 0, open_low=True)
    _check_number("max_grad_norm", a.max_grad_norm, 0)
    _check_number(
        "label_smoothing_factor", a.label_smoothing_factor, 0, 1, open_high=True
    )
    _check_number("num_train_epochs", a.num_train_epochs, 0)
    _check_number("max_steps", a.max_steps, -1, whole=True)
    _check_number("warmup_steps", a.warmup_steps, 0)
    _check_number("warmup_ratio", a.warmup_ratio, 0, 1, optional=True)
    _check_number("eval_delay", a.eval_delay, 0)
    _check_number("save_total_limit", a.save_total_limit, 1, whole=True, optional=True)
    _check_number("num_threads", a.num_threads, 1, whole=True, optional=True)
    _check_number("ddp_timeout", a.ddp_timeout, 0, open_low=True)
    cap = a.ddp_bucket_cap_mb
    _check_number("ddp_bucket_cap_mb", cap, 0, optional=True, open_low=True)
    ahead = a.dataloader_prefetch_factor
    _check_number("dataloader_prefetch_factor", ahead, 0, whole=True, optional=True)
    for field in ("seed", "data_seed"):
        _check_number(
            field, getattr(a, field), 0, 2**63 - 1, whole=True, optional=field != "seed"
        )
    for event, strategy in (
        ("logging_steps", a.logging_strategy),
        ("eval_steps", a.eval_strategy),
        ("save_steps", a.save_strategy),
    ):
        value = getattr(a, event)
        if strategy != "steps":
            continue
        _check_number(event, value, 0, open_low=True)
        if value > 1 and value != int(value):
            raise refuse(
                event,
                value,
                "a whole number, or a fraction of the run below 1",
                "round",
            )
    if a.warmup_steps > 1 and a.warmup_steps != int(a.warmup_steps):
        raise refuse(
            "warmup_steps", a.warmup_steps, "a whole number, or a fraction < 1", "round"
        )


def check_choices(a: Any) -> None:
    """Fields that take one of a few words."""
    for field, allowed in CHOICES.items():
        value = getattr(a, field)
        if value not in allowed:
            near = difflib.get_close_matches(str(value), allowed, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "choose one of them"
            raise refuse(field, value, " or ".join(map(repr, allowed)), hint)
    if not isinstance(a.device, str) or not DEVICES.fullmatch(a.device):
        raise refuse(
            "device",
            a.device,
            "'auto', 'cpu', 'cuda' or 'cuda:1'",
            "ea.devices() lists those of this machine",
        )
    if a.use_cpu and a.device not in ("auto", "cpu"):
        raise refuse("device", a.device, "'cpu' beside use_cpu=True", "drop one")
    if a.precision not in (None, "float32", "bfloat16", "auto"):
        raise refuse(
            "precision",
            a.precision,
            "'float32', 'bfloat16', 'auto' or None (the model's own type)",
            "'auto' times both for a few steps and takes the faster one",
        )
    if a.bf16 and a.precision in ("float32", "auto"):
        raise refuse(
            "precision",
            a.precision,
            "'bfloat16' beside bf16=True",
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
    if not isinstance(a.lr_scheduler_kwargs, dict):
        raise refuse(
            "lr_scheduler_kwargs",
            a.lr_scheduler_kwargs,
            "a dict or a JSON object",
            "for example {'num_cycles': 2}",
        )


def check_combinations(a: Any) -> None:
    """Fields that contradict one another."""
    if a.deterministic is not True:
        raise refuse(
            "deterministic",
            a.deterministic,
            "True",
            "the core has no faster mode that would give up equal bits",
        )
    if a.cuda_graphs:
        _check_cuda_graphs(a)
    if a.warmup_ratio and a.warmup_steps:
        raise refuse(
            "warmup_ratio",
            a.warmup_ratio,
            f"one of the two, warmup_steps={a.warmup_steps} is set too",
            "keep warmup_steps (a fraction below 1 is a share of the run)",
        )
    if a.max_steps <= 0 and a.num_train_epochs == 0 and a.do_train:
        raise refuse("num_train_epochs", 0, "more than 0", "or give max_steps")
    needs_metric = a.load_best_model_at_end or a.save_strategy == "best"
    if a.save_strategy == "best" and a.metric_for_best_model is None:
        raise refuse(
            "save_strategy",
            "best",
            "metric_for_best_model beside it",
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


def _check_cuda_graphs(a: Any) -> None:
    """A step that is recorded is one batch on a GPU, without a look in between."""
    for field, value, wanted in (
        ("gradient_accumulation_steps", a.gradient_accumulation_steps, 1),
        ("auto_find_batch_size", a.auto_find_batch_size, False),
        ("on_nonfinite", a.on_nonfinite, "stop"),
        ("use_cpu", a.use_cpu, False),
    ):
        if value != wanted:
            raise refuse(
                "cuda_graphs",
                True,
                f"{field}={wanted!r} beside it, it is {value!r}",
                "drop one of the two",
            )


def settle_checkpointing(a: Any) -> None:
    """The two spellings of gradient checkpointing become one truth value.

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
    """A dict given as JSON text (the command line's form) becomes a dict."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise refuse(field, value, "a JSON object", f"JSON says: {error}") from error
