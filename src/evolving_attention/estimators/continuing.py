"""Fits that continue an earlier one (``warm_start=True``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from evolving_attention.errors import ConfigError, InputError, ShapeError
from evolving_attention.estimators import architecture

_REMEDY = "set warm_start=False to fit from scratch"


def check_options(estimator: Any) -> None:
    """Refuse options that describe a different model than the fitted one.

    Raises:
        ConfigError: names the option, its value and the fitted model's.
    """
    import evolving_attention as ea

    fitted = estimator.model_.config
    wanted = estimator.model_settings()
    if estimator.pretrained is not None:
        wanted |= architecture.inherited(estimator, fitted)
    limit = estimator.max_length or fitted.max_length
    config = ea.EADCTransformerConfig(
        channels=fitted.channels, max_length=limit, **wanted
    )
    pairs = {
        name: (getattr(config, name), getattr(fitted, name))
        for name in (*wanted, "max_length")
    }
    pairs["scale"] = (estimator.scale, estimator.scaler_.scale)
    for name, (new, old) in pairs.items():
        if new != old:
            raise ConfigError(
                f"{type(estimator).__name__}: {name} is now {new!r}, expected {old!r} "
                f"as in the fit that warm_start=True continues; {_REMEDY}"
            )


def check_series(estimator: Any, channels: int) -> None:
    """Refuse series whose channels differ from the fitted model's.

    Raises:
        ShapeError: the number of channels differs.
    """
    known = estimator.model_.config.channels
    if channels != known:
        raise ShapeError(
            f"X: {channels} channels, expected {known} as in the fit that "
            f"warm_start=True continues; {_REMEDY}"
        )


def check_classes(found: Any, known: Any) -> None:
    """Refuse labels whose classes differ from the fitted model's.

    Raises:
        InputError: the classes differ.
    """
    if not np.array_equal(found, known):
        raise InputError(
            f"y: the classes {', '.join(map(str, found))}, expected "
            f"{', '.join(map(str, known))} as in the fit that warm_start=True "
            f"continues; {_REMEDY}"
        )
