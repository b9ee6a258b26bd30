"""Ranges of the estimators' options, checked when a fit begins."""

from __future__ import annotations

from typing import Any, get_type_hints

from evolving_attention.data.series_lengths import LONGER
from evolving_attention.device_names import resolve_device
from evolving_attention.errors import ConfigError
from evolving_attention.field_types import check_attributes, describe
from evolving_attention.training.schedules import NAMES

__all__ = ["TRAINING", "check", "check_training", "refuse_twice"]

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
    check_attributes(estimator)
    name = type(estimator).__name__
    hints = get_type_hints(type(estimator).__init__)
    for option, (least, most) in ranges.items():
        value = getattr(estimator, option)
        if value is not None and not least <= value <= most:
            kind = describe(hints[option]).removesuffix(" or None")
            raise ConfigError(
                f"{name}: {option}={value!r}, expected {kind} from {least:g} to "
                f"{most:g}; correct it"
            )
    if estimator.lr_schedule not in NAMES:
        raise ConfigError(
            f"{name}: lr_schedule={estimator.lr_schedule!r}, expected one of "
            f"{', '.join(NAMES)}; choose one of them"
        )
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
    if estimator.longer not in LONGER:
        raise ConfigError(
            f"{name}: longer={estimator.longer!r}, expected one of {', '.join(LONGER)}"
            "; choose one of them"
        )
    if estimator.class_weight is not None and not hasattr(estimator, "n_classes_"):
        raise ConfigError(
            f"{name}: class_weight={estimator.class_weight!r}, expected None: a "
            "regressor has no classes; use fit(X, y, sample_weight)"
        )
    options = estimator.model_options
    if options is not None and not isinstance(options, dict):
        raise ConfigError(
            f"{name}: model_options is a {type(options).__name__}, expected a dict of "
            "options of ea.EADCTransformerConfig, such as {'dilation_base': 3}"
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
