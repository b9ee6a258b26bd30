"""Public interface of ``ea.glue``: loading, metrics, ``TASKS``, leaderboard files."""

from __future__ import annotations

from collections.abc import Callable

from evolving_attention.data.glue import TASKS, GlueDataset, get_task, in_domain, load
from evolving_attention.data.glue_tasks import GlueTask
from evolving_attention.data.hub import load_hub
from evolving_attention.data.submission import (
    SubmissionReport,
    build_submission,
    leaderboard_file,
    predict_file_name,
    write_predictions,
)
from evolving_attention.metrics import EvalPrediction, compute_metrics

__all__ = [
    "TASKS",
    "EvalPrediction",
    "GlueDataset",
    "GlueTask",
    "SubmissionReport",
    "build_submission",
    "get_task",
    "in_domain",
    "leaderboard_file",
    "load",
    "load_hub",
    "metrics",
    "predict_file_name",
    "write_predictions",
]


def metrics(task: str) -> Callable[[EvalPrediction], dict[str, float]]:
    """Returns the metrics of a task as a ``compute_metrics`` function for a Trainer.

    Keys are Hugging Face's: ``accuracy``, ``f1``, ``matthews_correlation``,
    ``pearson``, ``spearmanr``, and ``combined_score`` (their mean) when there is more
    than one.

    Raises:
        ConfigError: the task is not known.

    Example::

        ea.glue.metrics("mrpc")((logits, labels))   # {"accuracy": …, "f1": …, …}
    """
    spec = get_task(task)
    return compute_metrics(spec.metrics, regression=spec.is_regression)
