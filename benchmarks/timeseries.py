"""The paper's time-series models and aeon's quick baselines, over resamples.

Every arm is scored once after training, on the archive's split with seeds 1 to
``--seeds``, and on ``--resamples`` others: the union of training and test part, split
again with the archive's number of training series (per class). Our arms share the
shape, the recipe and the named random streams; one arm trains DC-T for as many epochs
as fit into EA-DC-T's seconds. Differences over resamples have the interval of Nadeau
and Bengio (Machine Learning 52, 2003), as training parts overlap.

Writes each run to a JSON file and the tables to docs/timeseries_results.md, between
their markers. Runs that are already in the JSON are not repeated.

    python -m benchmarks.timeseries --datasets JapaneseVowels [--resamples 25]
"""

from __future__ import annotations

import functools
import importlib
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness, rules, seeds
from benchmarks import options as spelled
from benchmarks.timeseries_settings import (
    ARMS,
    BASELINES,
    EPOCHS,
    LONGER,
    MODELS,
    PUBLISHED,
    settings_of,
)

PAGE = seeds.DOCS / "timeseries_results.md"
MARKER = "timeseries"
FIRST = "ea-dc-t"  # compared with all others
CONSTANT = "1nn-dtw"  # deterministic: its run with one seed counts for all
Run = dict[str, Any]
Parts = tuple[list[Any], Any, list[Any], Any]  # X and y to train on, and to test on


def resampled(data: Any, resample: int) -> Parts:
    """Returns training and test series; resample 0 is the archive's split."""
    X, y = [*data.train.X, *data.test.X], np.concatenate([data.train.y, data.test.y])
    chosen = np.arange(len(y)) < len(data.train.y)
    if resample:
        every = [np.ones(len(y), bool)]
        groups = every if data.is_regression else [y == name for name in np.unique(y)]
        rng, taken = np.random.default_rng(resample), np.zeros(len(y), bool)
        for group in groups:
            places = rng.permutation(np.flatnonzero(group))
            taken[places[: int((group & chosen).sum())]] = True
        chosen = taken
    return (
        [X[i] for i in np.flatnonzero(chosen)],
        y[chosen],
        [X[i] for i in np.flatnonzero(~chosen)],
        y[~chosen],
    )


def options_of(data: Any, arm: str, epochs: int | None) -> dict[str, Any]:
    """Returns options of the arm's estimator; ``epochs`` overrides the data set's."""
    if arm in BASELINES:
        return dict(BASELINES[arm][2])
    options = settings_of(data.name, "dc-t" if arm == LONGER else arm)
    options["max_length"] = data.longest
    return {**options, "n_epochs": epochs} if epochs else options


def estimator_of(data: Any, arm: str, options: dict[str, Any], seed: int) -> Any:
    """Returns the arm's estimator, not fitted."""
    import evolving_attention as ea

    if arm not in BASELINES:
        kind = ea.TimeSeriesRegressor if data.is_regression else ea.TimeSeriesClassifier
        return kind(**options, random_state=seed)
    module, name = BASELINES[arm][data.is_regression].split(":")
    kind = getattr(importlib.import_module(module), name)
    if "random_state" in kind._get_param_names():
        options = {**options, "random_state": seed}
    return kind(**options)


def longer_epochs(runs: Sequence[Run], dataset: str) -> int:
    """Returns DC-T's epochs in EA-DC-T's seconds: those of existing runs, if any.

    Otherwise computed from the medians on the archive's split. Seconds are CPU time,
    which other work does not lengthen; the oldest runs have only wall-clock time.
    """
    by_arm: dict[str, list[Run]] = {}
    for one in runs:
        if one["dataset"] == dataset:
            by_arm.setdefault(one["arm"], []).append(one)
    if LONGER in by_arm:
        return int(by_arm[LONGER][0]["options"]["n_epochs"])
    ours, theirs = (
        np.median([one["cpu_seconds"] for one in by_arm[arm]])
        for arm in (FIRST, "dc-t")
    )
    return round(EPOCHS[dataset] * float(ours / theirs))


def run(data: Any, names: Run, epochs: int | None) -> Run:
    """Fits and scores once."""
    arm, seed = names["arm"], names["seed"]
    X, y, test_X, test_y = resampled(data, names["resample"])
    if arm in BASELINES and arm != CONSTANT:  # they need series of equal length
        X, test_X = (equal_length(part, data.longest) for part in (X, test_X))
    options = options_of(data, arm, epochs)
    estimator = estimator_of(data, arm, options, seed)
    began, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if arm in BASELINES else "default")
        estimator.fit(X, y)
        found: Run = {
            "fit_seconds": time.perf_counter() - began,
            "cpu_seconds": time.process_time() - cpu,
        }
        predicted = estimator.predict(test_X)
    if arm not in BASELINES:
        if estimator.interrupted_:
            raise KeyboardInterrupt  # only complete runs are recorded
        found["options"] = options
        found["parameters"] = estimator.model_.num_parameters()
    if data.is_regression:
        score = float(np.sqrt(np.mean((predicted - test_y) ** 2)))
    else:
        score = 100 * float(np.mean(predicted == test_y))
    parts = {"train": len(y), "test": len(test_y)}
    place = {"commit": rules.commit()[0], "cpu": harness.cpu_model()[0]}
    return {**found, **parts, "score": score, **place}


def equal_length(series: Sequence[Any], length: int) -> Any:
    """Returns the series as one array, padded to ``length`` with their last value."""
    return np.stack(
        [np.pad(x, ((0, 0), (0, length - x.shape[1])), mode="edge") for x in series]
    )


# --- tables ---------------------------------------------------------------------------


def scores_of(runs: Sequence[Run], dataset: str, arm: str, archive: bool) -> Any:
    """Returns scores by seed on the archive's split, or by resample."""
    found = {
        r["seed"]: r["score"]
        for r in runs
        if (r["dataset"], r["arm"], r["resample"] == 0) == (dataset, arm, archive)
    }
    if arm == CONSTANT and archive and found:
        others = scores_of(runs, dataset, FIRST, archive)
        found = dict.fromkeys(others, found[min(found)])
    return found


def table(runs: Sequence[Run], dataset: str) -> str:
    """Returns Markdown: each arm on the archive's split and over resamples.

    The seconds of a fit are those of the archive's split, which ran on one machine; the
    resamples of a data set may have run on several.
    """
    mine = [r for r in runs if r["dataset"] == dataset]
    digits = 2 if dataset in PUBLISHED else 4
    unit = "accuracy %" if dataset in PUBLISHED else "RMSE"
    ratio = mine[0]["test"] / mine[0]["train"]
    head = ["model", f"archive: {unit}", "seeds", f"{FIRST} − it", f"resampled: {unit}"]
    head += ["resamples", f"{FIRST} − it", "parameters", "fit"]
    lines = [f"### {dataset}", "", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for arm in ARMS:
        if not (own := [r for r in mine if r["arm"] == arm]):
            continue
        cells = [arm]
        for archive in (True, False):
            found = scores_of(runs, dataset, arm, archive)
            first = scores_of(runs, dataset, FIRST, archive)
            gains = [first[k] - found[k] for k in sorted(set(first) & set(found))]
            overlap = 0.0 if archive else ratio
            cells += [
                seeds.mean_and_sd(list(found.values()), digits) if found else "",
                str(len(found)),
                seeds.interval(gains, digits, overlap)
                if gains and arm != FIRST
                else "",
            ]
        cells.append(f"{own[0]['parameters']:,}" if "parameters" in own[0] else "")
        archive_runs = [r for r in own if not r["resample"]]
        fits = [r.get("cpu_seconds", r["fit_seconds"]) for r in archive_runs]
        cells.append(f"{np.median(fits):.1f} s" if fits else "")
        lines.append(f"| {' | '.join(cells)} |")
    for name, score in PUBLISHED.get(dataset, {}).items():
        lines.append(f"| {name}, published | {100 * score:.2f} | | | | | | | |")
    return "\n".join(lines)


def over_datasets(runs: Sequence[Run]) -> list[str]:
    """Returns the paper's average rank and relative difference on archive splits."""
    from evolving_attention import metrics

    found, datasets = [], list(dict.fromkeys(r["dataset"] for r in runs))
    for title, chosen in (
        (
            "Average rank over the classification sets",
            [d for d in datasets if d in PUBLISHED],
        ),
        (
            "Average relative difference of RMSE (Eq. 12)",
            [d for d in datasets if d not in PUBLISHED],
        ),
    ):
        by_arm = {
            arm: [list(scores_of(runs, d, arm, True).values()) for d in chosen]
            for arm in ARMS
        }
        whole = {arm: each for arm, each in by_arm.items() if each and all(each)}
        if not whole:
            continue
        # Rounded: equal means of different sums may differ in their last bits.
        means = np.array(
            [
                [round(seeds.mean_sd(each)[0], 9) for each in one]
                for one in whole.values()
            ]
        ).T
        if chosen[0] in PUBLISHED:
            values = metrics.average_rank(means, higher_is_better=True)
        else:
            values = metrics.average_relative_difference(means)
        shown = ", ".join(
            f"{arm} {x:.3f}" for arm, x in zip(whole, values, strict=True)
        )
        found.append(f"{title}: {shown}.")
    return found


def tables(runs: Sequence[Run]) -> str:
    """Returns Markdown: one table per data set, then metrics over all of them."""
    datasets = [d for d in EPOCHS if any(r["dataset"] == d for r in runs)]
    return "\n\n".join([*(table(runs, d) for d in datasets), *over_datasets(runs)])


def wanted(options: Any) -> list[Run]:
    """Returns the keys of the runs of a data set, in their order.

    DC-T's longer runs follow the archive's others, which determine their epochs.
    """
    names = [
        {"arm": arm, "resample": 0, "seed": seed}
        for longer in (False, True)
        for seed in range(1, options.seeds + 1)
        for arm in options.arms
        if (arm == LONGER) == longer and (arm != CONSTANT or seed == 1)
    ]
    return names + [
        {"arm": arm, "resample": turn, "seed": turn}
        for turn in range(1, options.resamples + 1)
        for arm in options.arms
    ]


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    import evolving_attention as ea

    parser = spelled.parser(__doc__, "threads")
    parser.add_argument("--datasets", nargs="+", choices=EPOCHS, default=list(EPOCHS))
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--seeds", type=int, default=10, help="of the archive's split")
    parser.add_argument("--resamples", type=int, default=25)
    parser.add_argument("--result", type=Path, help="the JSON file")
    options = parser.parse_args(arguments)
    harness.set_threads(options.threads)
    result = options.result or harness.RESULTS / "timeseries.json"
    settings = {d: {m: settings_of(d, m) for m in MODELS} for d in EPOCHS}
    record = {"name": "timeseries", "settings": settings, "runs": []}

    def go(data: Any, *names: Run) -> list[Run]:
        return seeds.series(
            result,
            record,
            names,
            lambda one: run(data, one, epochs if one["arm"] == LONGER else None),
            machine,
        )

    machine = functools.cache(lambda: harness.machine(options.threads))
    runs, epochs = go(None), None
    for dataset in options.datasets:
        data = ea.timeseries.load(dataset)
        for names in wanted(options):
            if names["arm"] == LONGER:
                epochs = longer_epochs(runs, dataset)
            runs = go(data, {"dataset": dataset, **names})
    found = tables(runs)
    print(found)
    if options.result is None:
        seeds.write_table(PAGE, MARKER, found)


if __name__ == "__main__":
    main()
