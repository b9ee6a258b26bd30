"""Estimators with the conventions of scikit-learn and aeon (extra ``timeseries``)."""

from evolving_attention.estimators.pretraining import pretrain
from evolving_attention.estimators.time_series import (
    TimeSeriesClassifier,
    TimeSeriesRegressor,
)

__all__ = ["TimeSeriesClassifier", "TimeSeriesRegressor", "pretrain"]
