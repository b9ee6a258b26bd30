"""Metrics of tasks, computed by scikit-learn and scipy; keys as Hugging Face's."""

from evolving_attention.metrics.prediction import EvalPrediction
from evolving_attention.metrics.registry import compute_metrics

__all__ = ["EvalPrediction", "compute_metrics"]
