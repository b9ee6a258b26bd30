"""Estimators with the conventions of scikit-learn, and of aeon for time series.

Those of time series need the extra ``timeseries``, that of pictures ``image``; each is
imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["ImageClassifier", "TimeSeriesClassifier", "TimeSeriesRegressor", "pretrain"]

_LAZY = {
    "ImageClassifier": "images",
    "TimeSeriesClassifier": "time_series",
    "TimeSeriesRegressor": "time_series",
    "pretrain": "pretraining",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


if TYPE_CHECKING:
    from evolving_attention.estimators.images import ImageClassifier
    from evolving_attention.estimators.pretraining import pretrain
    from evolving_attention.estimators.time_series import (
        TimeSeriesClassifier,
        TimeSeriesRegressor,
    )
