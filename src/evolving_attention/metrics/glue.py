"""The GLUE metrics, each a function of (predicted, true) to a dict of values.

Accuracy, F1 and Matthews correlation use scikit-learn; Pearson and Spearman correlation
use scipy (extra ``glue``). Each imports its library when it is called.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from evolving_attention.errors import InputError, require

Values = dict[str, float]
_WHY = "to compute GLUE metrics"


def accuracy(predicted: np.ndarray, true: np.ndarray) -> Values:
    """Returns the share of rows with the right class."""
    sklearn = require("sklearn.metrics", extra="glue", why=_WHY)
    return {"accuracy": float(sklearn.accuracy_score(true, predicted))}


def f1(predicted: np.ndarray, true: np.ndarray) -> Values:
    """Returns F1 of class 1; 0 if class 1 neither occurs nor is predicted.

    Raises:
        InputError: there are other classes than two.
    """
    classes = np.union1d(true, predicted).tolist()
    if len(classes) > 2 or (len(classes) == 2 and 1 not in classes):
        raise InputError(
            f"f1: the labels and predictions have the classes {classes}, "
            "expected 0 and 1, for it is the F1 of class 1; leave f1 out, or average "
            "that of several classes in a compute_metrics of your own"
        )
    sklearn = require("sklearn.metrics", extra="glue", why=_WHY)
    return {"f1": float(sklearn.f1_score(true, predicted, zero_division=0))}


def matthews(predicted: np.ndarray, true: np.ndarray) -> Values:
    """Returns Matthews correlation; 0 if predictions or labels are all one class."""
    sklearn = require("sklearn.metrics", extra="glue", why=_WHY)
    value = float(sklearn.matthews_corrcoef(true, predicted))
    return {"matthews_correlation": value}


def correlations(predicted: np.ndarray, true: np.ndarray) -> Values:
    """Returns Pearson and Spearman correlation; NaN, with a warning, for constants."""
    names = ("pearson", "spearmanr")
    for what, values in (("predictions", predicted), ("labels", true)):
        if len(values) < 2 or np.ptp(values) == 0:
            warnings.warn(
                f"all {len(values)} {what} are {values[0]:g}, so the correlation is "
                "not defined: pearson and spearmanr are NaN",
                stacklevel=2,
            )
            return dict.fromkeys(names, float("nan"))
    stats = require("scipy.stats", extra="glue", why=_WHY)
    return {
        "pearson": float(stats.pearsonr(predicted, true)[0]),
        "spearmanr": float(stats.spearmanr(predicted, true)[0]),
    }


#: Metric key to the function that computes it.
METRICS: dict[str, Callable[[np.ndarray, np.ndarray], Values]] = {
    "accuracy": accuracy,
    "f1": f1,
    "matthews_correlation": matthews,
    "pearson": correlations,
    "spearmanr": correlations,
}
