"""Task to metrics: a function from an EvalPrediction to named values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from evolving_attention.errors import ConfigError
from evolving_attention.metrics.glue import METRICS
from evolving_attention.metrics.prediction import (
    EvalPrediction,
    class_predictions,
    score_predictions,
)


def compute_metrics(
    names: Sequence[str], *, regression: bool = False
) -> Callable[[EvalPrediction], dict[str, float]]:
    """Returns a ``compute_metrics`` for a Trainer.

    Args:
        names: keys of ``METRICS``, for example ``("accuracy", "f1")``.
        regression: whether predictions are scores rather than logits.

    Returns:
        A function that returns ``{key: value}``, and if there is more than one value
        also ``combined_score``, their mean. Rows and tokens of the class -100 are left
        out.

    Raises:
        ConfigError: a name is unknown.
        MissingExtraError: a metric's library is not installed.
    """
    unknown = [name for name in names if name not in METRICS]
    if unknown or not names:
        raise ConfigError(
            f"metric {', '.join(unknown) or '(none)'} is not known; expected some of "
            f"{', '.join(METRICS)}"
        )
    functions = tuple(dict.fromkeys(METRICS[name] for name in names))
    arrays = score_predictions if regression else class_predictions
    few = np.array([0, 1, 1])
    for function in functions:  # imports the library now, not after training
        function(few, few)

    def compute(prediction: EvalPrediction) -> dict[str, float]:
        predicted, true = arrays(EvalPrediction(*prediction))
        values: dict[str, float] = {}
        for function in functions:
            values |= function(predicted, true)
        if len(values) > 1:
            values["combined_score"] = float(np.mean(list(values.values())))
        return values

    return compute
