"""Estimators with the conventions of scikit-learn.

Those of time series need aeon (extra ``timeseries``), those of graphs scikit-learn
alone (extra ``graphs``), so each is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = [
    "GraphNodeClassifier",
    "TimeSeriesClassifier",
    "TimeSeriesRegressor",
    "pretrain",
]

_MODULES = {
    "GraphNodeClassifier": "graph_nodes",
    "TimeSeriesClassifier": "time_series",
    "TimeSeriesRegressor": "time_series",
    "pretrain": "pretraining",
}


def _find(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    return getattr(module, name)


if not TYPE_CHECKING:
    __getattr__ = _find

if TYPE_CHECKING:
    from evolving_attention.estimators.graph_nodes import (
        GraphNodeClassifier as GraphNodeClassifier,
    )
    from evolving_attention.estimators.pretraining import pretrain as pretrain
    from evolving_attention.estimators.time_series import (
        TimeSeriesClassifier as TimeSeriesClassifier,
    )
    from evolving_attention.estimators.time_series import (
        TimeSeriesRegressor as TimeSeriesRegressor,
    )
