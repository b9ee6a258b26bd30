"""Ranges of the estimators' options, checked when a fit begins."""

from __future__ import annotations

import numbers
from typing import Any

from evolving_attention.device_names import resolve_device
from evolving_attention.errors import ConfigError
from evolving_attention.training.schedules import NAMES

__all__ = ["check"]

# option: (whole number, least value, greatest value, whether None is allowed); what
# the model is made of is checked by its config
_RANGES: dict[str, tuple[bool, float, float, bool]] = {
    "n_epochs": (True, 1, 1_000_000, False),
    "batch_size": (True, 1, 1_000_000, False),
    "learning_rate": (False, 0.0, 1e3, False),
    "weight_decay": (False, 0.0, 1e3, False),
    "validation_fraction": (False, 0.0, 0.9, False),
    "patience": (True, 1, 1_000_000, True),
    "max_length": (True, 1, 1_000_000, True),
}


def check(estimator: Any) -> None:
    """Refuse options of an estimator that are out of range.

    Raises:
        ConfigError: names the option, its value and what was expected.
        BackendUnavailable: this build or machine has no such ``device``.
    """
    name = type(estimator).__name__
    for option, (whole, least, most, optional) in _RANGES.items():
        value = getattr(estimator, option)
        if value is None and optional:
            continue
        kind = numbers.Integral if whole else numbers.Real
        fits = isinstance(value, kind) and not isinstance(value, bool)
        if not fits or not least <= value <= most:
            sort = "a whole number" if whole else "a number"
            none = " or None" if optional else ""
            raise ConfigError(
                f"{name}: {option}={value!r}, expected {sort} from {least:g} to "
                f"{most:g}{none}; correct it"
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
    options = estimator.model_options
    if options is not None and not isinstance(options, dict):
        raise ConfigError(
            f"{name}: model_options is a {type(options).__name__}, expected a dict of "
            "options of ea.EADCTransformerConfig, such as {'kernel_size': 5}"
        )
