"""Learning curves of classifiers: updates, the seconds they took, and scores.

The clock counts only the updates: it stops while validation and test rows are scored.
One curve therefore gives a score at equal updates and at equal seconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness, rules, seeds
from benchmarks import options as spelled

PAGE = seeds.DOCS / "images.md"

COLUMNS = (
    "update",
    "seconds",
    "val_loss",
    "val_accuracy",
    "test_loss",
    "test_accuracy",
)
Array = np.ndarray[Any, Any]
Curve = dict[str, list[float]]


def rows_of(pixels: Array, labels: Array, change: Any, seed: int = 0) -> Any:
    """Wraps pictures [n, height, width, channels] as rows; ``seed``: of the changes."""
    from evolving_attention.data.images import ImageRows

    return ImageRows(pixels, change, tokens=1, labels=labels, seed=seed)


def scores(model: Any, rows: Any, batch: int = 250) -> tuple[float, float]:
    """Returns (mean cross entropy, accuracy) in evaluation mode."""
    import evolving_attention as ea
    from evolving_attention.estimators.graph_fitting import cross_entropy
    from evolving_attention.training.batches import inputs_of

    found, read = [], getattr(rows, "bare", rows.gather)
    with ea.no_grad():
        model.eval()
        for start in range(0, len(rows), batch):
            some = inputs_of(read(range(start, min(start + batch, len(rows)))))
            found.append(model(**some).logits.numpy())
    logits = np.concatenate(found).astype(np.float64)
    hits = logits.argmax(axis=1) == rows.labels
    return cross_entropy(logits, rows.labels), float(hits.mean())


def train(
    model: Any,
    optimizer: Any,
    parts: tuple[Any, Any, Any],
    *,
    updates: int,
    batch: int,
    every: int,
    seed: int,
    factor: Callable[[int], float] | None = None,
    label_smoothing: float = 0.0,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Any]:
    """Trains on the first part and scores the two other parts along the way.

    Args:
        parts: rows to train on, to choose an update with, and to test on.
        every: updates between scores.
        seed: seed of the row order, which differs in every pass.
        factor: factor of the rate for each update, counted from 0; None: 1.
        clock: returns the time in seconds.
    Returns:
        ``curve`` and the ``commit`` of the run.
    """
    from evolving_attention.training.batches import inputs_of
    from evolving_attention.training.schedules import Schedule

    schedule = Schedule(optimizer, factor or (lambda step: 1.0))
    rows, passes = parts[0], len(parts[0]) // batch
    curve: Curve = {name: [] for name in COLUMNS}
    order, seconds = np.arange(len(rows)), 0.0
    for update in range(1, updates + 1):
        turn, place = divmod(update - 1, passes)
        if place == 0:
            order = np.random.default_rng([seed, turn]).permutation(len(rows))
        began = clock()
        some = inputs_of(rows.gather(order[place * batch : (place + 1) * batch]))
        model.train()
        model(**some, label_smoothing=label_smoothing).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        seconds += clock() - began
        if update % every and update != updates:
            continue
        row = [float(update), seconds]
        for part in parts[1:]:
            row += scores(model, part)
        for name, value in zip(COLUMNS, row, strict=True):
            curve[name].append(round(value, 5))
    return {"curve": curve, "commit": rules.commit()[0]}


def chosen(curve: Curve, name: str, seconds: float = np.inf) -> float:
    """Returns a score at the update that validation chooses, within ``seconds``.

    The update with the highest validation accuracy is chosen; ties are broken by the
    lowest validation loss, as in ``ea.ImageClassifier``.
    """
    within = [i for i, at in enumerate(curve["seconds"]) if at <= seconds] or [0]
    best = max(within, key=lambda i: (curve["val_accuracy"][i], -curve["val_loss"][i]))
    return float(curve[name][best])


def table(
    title: str, runs: list[dict[str, Any]], pairs: list[tuple[str, str]]
) -> list[str]:
    """Returns Markdown: scores of every arm, and paired differences of pairs of arms.

    "Equal seconds" is the duration of the fastest run among these arms.
    """
    by_arm: dict[str, dict[Any, Curve]] = {}
    for one in runs:
        by_arm.setdefault(one["arm"], {})[one["seed"]] = one["curve"]
    last = min((one["curve"]["seconds"][-1] for one in runs), default=np.inf)
    values: dict[str, seeds.Value] = {
        "test accuracy, equal updates": (1, lambda c: 100 * chosen(c, "test_accuracy")),
        f"within {last:.1f} s": (1, lambda c: 100 * chosen(c, "test_accuracy", last)),
        "test loss, equal updates": (3, lambda c: chosen(c, "test_loss")),
        "seconds": (1, lambda c: c["seconds"][-1]),
    }
    return seeds.rows(title, by_arm, values, pairs)


def parser(
    doc: str | None, arms: Sequence[str], **defaults: int
) -> argparse.ArgumentParser:
    """Returns a parser of the options that image benchmarks share."""
    made = spelled.parser(doc, "threads", batch=defaults["batch"])
    made.add_argument("--arms", nargs="+", choices=arms, default=list(arms))
    made.add_argument("--seeds", type=int, default=defaults["seeds"])
    made.add_argument("--updates", type=int, default=defaults["updates"])
    made.add_argument(
        "--every", type=int, default=defaults["every"], help="updates between scores"
    )
    made.add_argument("--result", type=Path, help="the JSON file")
    return made


def over_seeds(
    name: str,
    options: argparse.Namespace,
    run: Callable[[str, int], dict[str, Any]],
    **settings: Any,
) -> list[dict[str, Any]]:
    """Returns the runs of all arms and seeds; runs in the JSON are not repeated.

    Seeds start at 2: settings were chosen by runs of seed 1.

    Args:
        name: name of the record.
        run: trains an arm with a seed.
        settings: settings that affect the results, in addition to the options.
    """
    harness.set_threads(options.threads)
    own = spelled.settings(options, "arms", "seeds", "result")
    return seeds.series(
        options.result or harness.RESULTS / f"{name}.json",
        {"name": name, "settings": {**own, **settings}, "runs": []},
        [
            {"arm": arm, "seed": seed}
            for seed in range(2, options.seeds + 2)
            for arm in options.arms
        ],
        lambda names: run(names["arm"], names["seed"]),
        lambda: harness.machine(options.threads),
    )


def tell(name: str, options: argparse.Namespace, lines: list[str]) -> None:
    """Prints the table and writes it to docs/images.md unless ``--result`` is given."""
    found = "\n".join(lines).rstrip()
    print(found)
    if options.result is None:
        seeds.write_table(PAGE, name, found)
