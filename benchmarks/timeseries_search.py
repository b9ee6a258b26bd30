"""One shape for all time-series models, chosen by splits of a training set only.

Width, depth, dropout, pooling and direction are varied one after the other, and the
best value is kept. Shapes are compared by the mean accuracy of all our models over
random splits of the training set (70 % to train, 30 % to validate); ties are broken by
the lower cross-entropy. Every model has the same number of trials and gets the same
shape. Of the test part only the length of its longest series is used, as max_length.
Fits that are already in the JSON are not repeated.

    python -m benchmarks.timeseries_search --dataset JapaneseVowels
"""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness, seeds
from benchmarks import options as spelled
from benchmarks.timeseries_settings import EPOCHS, MODELS, settings_of

RESULT = harness.RESULTS / "timeseries-search.json"
SHARE = 0.3  # share of the training set used for validation
SPLITS = 3

#: Options in the order of their variation; the first value starts the search.
AXES: dict[str, list[Any]] = {
    "hidden_size": [64, 128],
    "num_blocks": [3, 2, 4],
    "dropout": [0.1, 0.3],
    "model_options": [None, {"pooling": "mean"}, {"causal": False}],
}
Shape = dict[str, Any]


def fit(data: Any, shape: Shape, model: str, split: int) -> dict[str, float]:
    """Trains on a part of the training set; returns accuracy and loss of the rest."""
    import evolving_attention as ea
    from evolving_attention.estimators import targets

    X, y = list(data.train.X), data.train.y
    classes = np.unique(y)
    numbers = targets.class_numbers(y, classes)
    training, held_out = targets.split(len(y), SHARE, split, numbers)
    options = {**settings_of(data.name, model), **shape, "max_length": data.longest}
    began = time.perf_counter()
    estimator = ea.TimeSeriesClassifier(**options, random_state=split)
    estimator.fit([X[i] for i in training], y[training])
    if estimator.interrupted_:
        raise KeyboardInterrupt
    seconds = time.perf_counter() - began
    odds = estimator.predict_proba([X[i] for i in held_out])
    truth = numbers[held_out]
    right = np.maximum(odds[np.arange(len(truth)), truth], 1e-12)
    return {
        "accuracy": float((odds.argmax(axis=1) == truth).mean()),
        "loss": float(-np.log(right).mean()),
        "fit_seconds": seconds,
    }


def search(dataset: str, result: Path, threads: int) -> tuple[Shape, Shape]:
    """Returns the chosen shape, and its mean accuracy and loss."""
    import evolving_attention as ea

    data = ea.timeseries.load(dataset)
    if data.is_regression:
        raise SystemExit(f"{dataset}: the search is for classification")
    machine = functools.cache(lambda: harness.machine(threads))
    settings = {"dataset": dataset, "splits": SPLITS, "share": SHARE}

    def score(shape: Shape) -> Shape:
        wanted = [
            {"shape": shape, "arm": model, "split": split}
            for split in range(1, SPLITS + 1)
            for model in MODELS
        ]
        runs = seeds.series(
            result,
            {"name": "timeseries-search", "settings": settings, "runs": []},
            wanted,
            lambda names: fit(data, names["shape"], names["arm"], names["split"]),
            machine,
        )
        mine = [run for run in runs if run["shape"] == shape]
        return {
            name: float(np.mean([run[name] for run in mine]))
            for name in ("accuracy", "loss")
        }

    best = {name: values[0] for name, values in AXES.items()}
    found = score(best)
    for name, values in AXES.items():
        for value in values[1:]:
            shape = {**best, name: value}
            other = score(shape)
            if rank(other) > rank(found):
                best, found = shape, other
    return best, found


def rank(score: Shape) -> tuple[float, float]:
    """Returns the sort key: accuracy, then cross-entropy."""
    # Rounded: equal means of different sums may differ in their last bits.
    return round(score["accuracy"], 12), -score["loss"]


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    parser = spelled.parser(__doc__, "threads")
    parser.add_argument("--dataset", default="JapaneseVowels", choices=EPOCHS)
    parser.add_argument("--result", type=Path, default=RESULT)
    options = parser.parse_args(arguments)
    harness.set_threads(options.threads)
    print(search(options.dataset, options.result, options.threads))


if __name__ == "__main__":
    main()
