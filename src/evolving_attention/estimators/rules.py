"""Ranges of the estimators' options, checked when a fit begins."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, get_type_hints

from evolving_attention.data.series_lengths import LONGER
from evolving_attention.device_names import resolve_device
from evolving_attention.errors import ConfigError
from evolving_attention.field_types import check_attributes, describe
from evolving_attention.training.schedules import NAMES

# option: (least value, greatest value); the model's config checks the model's options
TRAINING: dict[str, tuple[float, float]] = {
    "n_epochs": (1, 1_000_000),
    "batch_size": (1, 1_000_000),
    "learning_rate": (0.0, 1e3),
    "weight_decay": (0.0, 1e3),
    "validation_fraction": (0.0, 0.9),
    "patience": (1, 1_000_000),
}


def check_training(estimator: Any, ranges: dict[str, tuple[float, float]]) -> None:
    """Run the checks that all estimators share: types, ranges, schedules, devices.

    Raises:
        ConfigError: names the option, its value and the expected one.
        BackendUnavailable: this build or machine does not have the ``device``.
    """
    check_ranges(estimator, ranges)
    check_choices(estimator, lr_schedule=NAMES)
    name = type(estimator).__name__
    if estimator.patience is not None and estimator.validation_fraction == 0:
        raise ConfigError(
            f"{name}: patience={estimator.patience} with validation_fraction=0, "
            "expected a validation part to watch; raise validation_fraction or leave "
            "patience out"
        )
    resolve_device(estimator.device)


def check(estimator: Any) -> None:
    """Refuse options of an estimator that have a wrong type or are out of range.

    Raises:
        ConfigError: names the option, its value and the expected one.
        BackendUnavailable: this build or machine does not have the ``device``.
    """
    check_training(estimator, {**TRAINING, "max_length": (1, 1_000_000)})
    name = type(estimator).__name__
    if estimator.time_axis not in (None, 1, 2):
        raise ConfigError(
            f"{name}: time_axis={estimator.time_axis!r}, expected 1 for [n, length, "
            "channels], 2 for [n, channels, length], or None; correct it"
        )
    check_choices(estimator, longer=LONGER)
    if estimator.class_weight is not None and not hasattr(estimator, "n_classes_"):
        raise ConfigError(
            f"{name}: class_weight={estimator.class_weight!r}, expected None: a "
            "regressor has no classes; use fit(X, y, sample_weight)"
        )
    example = "of ea.EADCTransformerConfig, such as {'dilation_base': 3}"
    check_dicts(estimator, model_options=example)


def check_ranges(estimator: Any, ranges: dict[str, tuple[float, float]]) -> None:
    """Refuse options of a wrong type, or outside (least, most)."""
    check_attributes(estimator)
    hints = get_type_hints(type(estimator).__init__)
    for option, (least, most) in ranges.items():
        value = getattr(estimator, option)
        if value is not None and not least <= value <= most:
            kind = describe(hints[option]).removesuffix(" or None")
            raise ConfigError(
                f"{type(estimator).__name__}: {option}={value!r}, expected {kind} from "
                f"{least:g} to {most:g}; correct it"
            )


def check_choices(estimator: Any, **known: Collection[str]) -> None:
    """Refuse options that are none of their known words."""
    for option, words in known.items():
        value = getattr(estimator, option)
        if value not in words:
            raise ConfigError(
                f"{type(estimator).__name__}: {option}={value!r}, expected one of "
                f"{', '.join(words)}; choose one of them"
            )


def check_dicts(estimator: Any, **examples: str) -> None:
    """Refuse options that are no dicts of options; the message shows an example."""
    for option, example in examples.items():
        value = getattr(estimator, option)
        if value is not None and not isinstance(value, dict):
            raise ConfigError(
                f"{type(estimator).__name__}: {option} is a {type(value).__name__}, "
                f"expected a dict of options {example}"
            )


def refuse_twice(estimator: Any, own: dict[str, Any], names: dict[str, str]) -> None:
    """Refuse model_options that the estimator's own options decide.

    Args:
        estimator: has ``model_options``.
        own: the config's options that come from the estimator's own.
        names: the estimator's option of a config's option, where their names differ.

    Raises:
        ConfigError: an option is in both; names it, its value, and what to give.
    """
    for name, value in (estimator.model_options or {}).items():
        if name in own:
            raise ConfigError(
                f"{type(estimator).__name__}: model_options has {name!r}={value!r}, "
                "expected options that the estimator does not have; give "
                f"{names.get(name, name)}= instead"
            )
