"""Task metrics, by scikit-learn and scipy; comparisons of models over data sets."""

from evolving_attention.metrics.comparison import (
    PairedDifference,
    average_rank,
    average_relative_difference,
    paired_difference,
)
from evolving_attention.metrics.entities import entity_metrics, entity_scores
from evolving_attention.metrics.images import confusion_matrix, top_k
from evolving_attention.metrics.prediction import EvalPrediction
from evolving_attention.metrics.probabilities import probabilities
from evolving_attention.metrics.registry import compute_metrics
from evolving_attention.metrics.squad import squad_scores, squad_v2_scores

__all__ = [
    "EvalPrediction",
    "PairedDifference",
    "average_rank",
    "average_relative_difference",
    "compute_metrics",
    "confusion_matrix",
    "entity_metrics",
    "entity_scores",
    "paired_difference",
    "probabilities",
    "squad_scores",
    "squad_v2_scores",
    "top_k",
]
