"""Task metrics, comparisons of models over data sets, statistics of their inside."""

from evolving_attention.metrics.comparison import (
    PairedDifference,
    average_rank,
    average_relative_difference,
    paired_difference,
)
from evolving_attention.metrics.entities import entity_metrics, entity_scores
from evolving_attention.metrics.heads import attention_entropy, head_divergence
from evolving_attention.metrics.images import confusion_matrix, top_k
from evolving_attention.metrics.prediction import EvalPrediction
from evolving_attention.metrics.probabilities import probabilities
from evolving_attention.metrics.registry import compute_metrics
from evolving_attention.metrics.representations import within_class_distance
from evolving_attention.metrics.squad import squad_scores, squad_v2_scores

__all__ = [
    "EvalPrediction",
    "PairedDifference",
    "attention_entropy",
    "average_rank",
    "average_relative_difference",
    "compute_metrics",
    "confusion_matrix",
    "entity_metrics",
    "entity_scores",
    "head_divergence",
    "paired_difference",
    "probabilities",
    "squad_scores",
    "squad_v2_scores",
    "top_k",
    "within_class_distance",
]
