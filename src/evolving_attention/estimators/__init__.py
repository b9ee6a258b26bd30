"""Estimators that follow scikit-learn's conventions; for time series also aeon's.

Time series need the extra ``timeseries``, pictures ``image``, graphs ``graphs``; each
estimator is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = [
    "GraphNodeClassifier",
    "ImageClassifier",
    "TimeSeriesClassifier",
    "TimeSeriesRegressor",
    "pretrain",
]

_MODULES = {
    "GraphNodeClassifier": "graph_nodes",
    "ImageClassifier": "images",
    "TimeSeriesClassifier": "time_series",
    "TimeSeriesRegressor": "time_series",
    "pretrain": "pretraining",
}


def _find(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


if not TYPE_CHECKING:
    __getattr__ = _find

if TYPE_CHECKING:
    from evolving_attention.estimators.graph_nodes import (
        GraphNodeClassifier as GraphNodeClassifier,
    )
    from evolving_attention.estimators.images import (
        ImageClassifier as ImageClassifier,
    )
    from evolving_attention.estimators.pretraining import pretrain as pretrain
    from evolving_attention.estimators.time_series import (
        TimeSeriesClassifier as TimeSeriesClassifier,
    )
    from evolving_attention.estimators.time_series import (
        TimeSeriesRegressor as TimeSeriesRegressor,
    )
