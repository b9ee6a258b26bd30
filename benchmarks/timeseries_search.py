"""Hyper-parameters of the time-series models, chosen on splits of training sets alone.

For each model one option after another is varied, the best value kept: mean accuracy
over random splits of the training set (70 % to train, 30 % to validate), and of equal
ones the lower cross-entropy. Of the test part only the length of its longest series is
used, as max_length. Every fit is one JSON file in --output, so that the search can be
cut short and repeated.

    python -m benchmarks.timeseries_search --dataset JapaneseVowels [--minutes 9]
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks import options as spelled

RESULT = harness.RESULTS / "timeseries-search.json"
SHARE = 0.3  # of the training set, to validate
SPLITS = 3

#: What is varied, in this order; the paper's own search space, and what it leaves open.
AXES: dict[str, list[Any]] = {
    "hidden_size": [64, 128],
    "num_blocks": [2, 3, 4],
    "attention": [
        {"kind": "evolving", "alpha": alpha, "beta": beta}
        for alpha, beta in ((0.5, 0.3), (0.3, 0.5), (0.1, 0.1))
    ],
    "attention_ratio": [0.25, 0.125, 0.5],
    "dropout": [0.1, 0.3],
    "model_options": [None, {"pooling": "mean"}, {"causal": False}],
}


class TimeIsUp(Exception):
    """The minutes are over; what is done is kept."""


def axes_of(model: str) -> dict[str, list[Any]]:
    """What can be varied of a model without making another one of it."""
    axes = dict(AXES)
    if model != "ea-dc-t":
        del axes["attention"]
    if model in ("transformer", "dilated-conv"):
        del axes["attention_ratio"]
    return axes


class Search:
    """Fits of one data set, kept as files.

    Args:
        dataset: its name.
        folder: for one JSON file per fit.
        until: begin no fit after this moment of ``time.monotonic()``; None: go on.
    """

    def __init__(self, dataset: str, folder: Path, until: float | None) -> None:
        import evolving_attention as ea

        data = ea.timeseries.load(dataset)
        if data.is_regression:
            raise SystemExit(f"{dataset}: the search is for classification")
        self.X, self.y, self.longest = list(data.train.X), data.train.y, data.longest
        self.dataset, self.folder, self.until = dataset, folder, until

    def run(self, model: str) -> dict[str, Any]:
        """The chosen options of a model, and every value that was tried."""
        from benchmarks.timeseries_settings import settings_of

        best = {**settings_of(self.dataset, model), "max_length": self.longest}
        tried: list[dict[str, Any]] = []
        score = self.score(best)
        tried.append({"options": {}, "score": score})
        for name, values in axes_of(model).items():
            start = best.get(name)
            for value in values:
                candidate = {**best, name: value}
                if value == start:
                    continue
                found = self.score(candidate)
                tried.append({"options": {name: value}, "score": found})
                if rank(found) > rank(score):
                    best, score = candidate, found
        base = settings_of(self.dataset, model)
        chosen = {k: v for k, v in best.items() if k in AXES and v != base.get(k)}
        return {
            "dataset": self.dataset,
            "model": model,
            "chosen": chosen,
            "tried": tried,
        }

    def score(self, options: dict[str, Any]) -> dict[str, Any]:
        """Mean accuracy and cross-entropy over the splits."""
        runs = [self.fit(options, split) for split in range(1, SPLITS + 1)]
        return {
            "accuracy": float(np.mean([run["accuracy"] for run in runs])),
            "loss": float(np.mean([run["loss"] for run in runs])),
            "fit_seconds": float(np.mean([run["fit_seconds"] for run in runs])),
        }

    def fit(self, options: dict[str, Any], split: int) -> dict[str, Any]:
        """One fit, or its file."""
        text = json.dumps(options, sort_keys=True)
        name = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        file = self.folder / self.dataset / f"{name}-{split}.json"
        if file.is_file():
            return dict(json.loads(file.read_text("utf-8")))
        if self.until is not None and time.monotonic() > self.until:
            raise TimeIsUp
        record = {"options": options, "split": split, **self._fit(options, split)}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        print(
            f"{record['accuracy']:.4f} {record['loss']:.4f} "
            f"{record['fit_seconds']:.1f} s  {text}",
            flush=True,
        )
        return record

    def _fit(self, options: dict[str, Any], split: int) -> dict[str, float]:
        import evolving_attention as ea
        from evolving_attention.estimators import targets

        classes = np.unique(self.y)
        numbers = targets.class_numbers(self.y, classes)
        training, held_out = targets.split(len(self.y), SHARE, split, numbers)
        began = time.perf_counter()
        estimator = ea.TimeSeriesClassifier(**options, random_state=split)
        estimator.fit([self.X[i] for i in training], self.y[training])
        if estimator.interrupted_:
            raise KeyboardInterrupt
        seconds = time.perf_counter() - began
        odds = estimator.predict_proba([self.X[i] for i in held_out])
        truth = numbers[held_out]
        right = np.maximum(odds[np.arange(len(truth)), truth], 1e-12)
        return {
            "accuracy": float((odds.argmax(axis=1) == truth).mean()),
            "loss": float(-np.log(right).mean()),
            "fit_seconds": seconds,
        }


def rank(score: dict[str, Any]) -> tuple[float, float]:
    """What is compared: accuracy, then cross-entropy."""
    return score["accuracy"], -score["loss"]


def searches(search: Search, models: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The finished searches, until the time is up."""
    for model in models:
        try:
            yield search.run(model)
        except TimeIsUp:
            print(f"{model}: not finished; run the same command again")
            return


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    from benchmarks.timeseries_settings import MODELS

    parser = spelled.parser(__doc__, "threads", "dry")
    parser.add_argument("--dataset", default="JapaneseVowels")
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--output", type=Path, default=Path("out/timeseries-search"))
    parser.add_argument("--minutes", type=float, help="begin no fit after them")
    parser.add_argument("--result", type=Path, default=RESULT)
    options = parser.parse_args(arguments)
    harness.set_threads(options.threads)
    until = time.monotonic() + 60 * options.minutes if options.minutes else None
    search = Search(options.dataset, options.output, until)
    found = list(searches(search, options.models))
    for one in found:
        print(f"{one['model']}: {one['chosen']}")
    if not options.dry and found:
        record = {"name": "timeseries-search", "splits": SPLITS, "share": SHARE}
        record["machine"] = harness.machine(options.threads)
        record["searches"] = found
        options.result.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
