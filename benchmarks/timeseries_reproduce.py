"""The paper's time-series models over seeds and data sets.

Every run is one JSON file; what is there is not run again, so that the command can be
cut short and repeated. Each run scores the test set once, after training.

    python -m benchmarks.timeseries_reproduce --datasets JapaneseVowels --seeds 10
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timeseries_settings import (
    BASELINES,
    DATASETS,
    MODELS,
    ReproduceArguments,
    settings_of,
)
from evolving_attention import durable
from evolving_attention.cli.common import json_output, print_json, set_up_logging
from evolving_attention.cli.options import Fields, build_app
from evolving_attention.cli.timeseries_results import align, check_scorable, scores
from evolving_attention.device_names import resolve_device
from evolving_attention.errors import ConfigError, MissingExtraError, require
from evolving_attention.metrics import average_rank, average_relative_difference

__all__ = ["compare", "main", "run_all", "summaries"]

_LOGGER = logging.getLogger("evolving_attention")
_HELP = """Compare EA-DC-Transformer, DC-Transformer, Transformer and Dilated Conv with
aeon's quick baselines: every model, data set and seed, one JSON file each.

The settings of JapaneseVowels were searched on its training set and differ between
the models; docs/timeseries_results.md lists them. Cut short, the command goes on where
it was.

Example: python -m benchmarks.timeseries_reproduce --datasets JapaneseVowels --seeds 10
--models ea-dc-t dc-t --output_dir out/timeseries
"""
_FIRST = "ea-dc-t"  # what the others are compared with
_CONSTANT = ("1nn-dtw",)  # draws nothing: its one run stands for every seed
_SAME = ("dataset", "model", "seed", "options")


def main(
    words: Sequence[str], name: str = "python -m benchmarks.timeseries_reproduce"
) -> None:
    """Parse the words of the command line and run."""
    fields = Fields([(ReproduceArguments, "Runs")])

    def start(given: dict[str, Any]) -> None:
        from evolving_attention.training.runtime import set_num_threads

        with json_output(bool(given.get("json"))):
            args = ReproduceArguments(**given)
            set_up_logging()
            set_num_threads(args.num_threads)
            runs = run_all(args)
            found = summaries(runs)
            results = {"runs": runs, "summaries": found, "table": table(found)}
            durable.write_json(Path(args.output_dir) / "results.json", results)
            if args.json:
                print_json(results)
            else:
                print(results["table"])

    build_app(fields, start, help=_HELP)(words, name)


def run_all(
    args: ReproduceArguments, until: float | None = None
) -> list[dict[str, Any]]:
    """Every run that was asked for, in order; from its file where that is there.

    Args:
        args: which runs.
        until: begin no run after this moment of ``time.monotonic()``; None: go on.

    Raises:
        ConfigError, BackendUnavailable: a model is not known, a device not there.
        DataError: a data set is nowhere.
    """
    from evolving_attention import timeseries

    given = {"n_epochs": args.n_epochs, "device": resolve_device(args.device)}
    changed = {k: v for k, v in given.items() if v not in (None, "cpu")}
    models = args.models or [*MODELS, *BASELINES]
    for model in models:
        if model not in BASELINES:
            settings_of("", model)  # raises with the list
    runs: list[dict[str, Any]] = []
    for name in args.datasets or DATASETS:
        data = timeseries.load(name, args.data_dir)
        check_scorable(data.train, data.test, data.longest, "interpolate", "error")
        for model, seed in _order(models, args.seeds):
            record = _plan(data, model, seed, changed)
            file = Path(args.output_dir) / name / f"{model}-{seed}.json"
            found = _kept(file, record)
            if found is None and until is not None and time.monotonic() > until:
                _LOGGER.info("time is up; the same command goes on from here")
                return runs
            if found is None:
                found = _run(data, record)
                if found is not None:
                    file.parent.mkdir(parents=True, exist_ok=True)
                    durable.write_json(file, found)
            if found is not None:
                runs.append(found)
                shown = [
                    f"{k} {v:.4f}" for k, v in found["test"].items() if k != "series"
                ]
                score = ", ".join(shown)
                _LOGGER.info("%s  %s  seed %d: %s", name, model, seed, score)
    return runs


def _order(models: Sequence[str], seeds: int) -> Iterator[tuple[str, int]]:
    """Seed by seed all models, so that a run cut short has comparable halves."""
    for seed in range(1, seeds + 1):
        for model in models:
            if seed == 1 or model not in _CONSTANT:
                yield model, seed


def _plan(data: Any, model: str, seed: int, changed: dict[str, Any]) -> dict[str, Any]:
    """What identifies a run; ``changed``: options of our models that are not chosen."""
    if model in BASELINES:
        options = dict(BASELINES[model][2])
    else:
        chosen = settings_of(data.name, model)
        options = {**chosen, "max_length": data.longest, **changed}
    return {"dataset": data.name, "model": model, "seed": seed, "options": options}


def _kept(file: Path, plan: dict[str, Any]) -> Any:
    """The record of this run, if it is there.

    Raises:
        ConfigError: there is one with other options.
    """
    if not file.is_file():
        return None
    record = json.loads(file.read_text("utf-8"))
    if any(record.get(key) != plan[key] for key in _SAME):
        raise ConfigError(
            f"{file}: a run with other options, expected {plan['options']}; choose "
            "another --output_dir or remove the file"
        )
    return record


def _run(data: Any, plan: dict[str, Any]) -> dict[str, Any] | None:
    """Train and test once; None where a library of a baseline is not there."""
    from evolving_attention.training.state import plain

    try:
        estimator = _estimator(data, plan)
    except (MissingExtraError, ImportError) as error:
        _LOGGER.warning("%s  %s: left out: %s", plan["dataset"], plan["model"], error)
        return None
    is_ours = plan["model"] in MODELS
    train, test = data.train, data.test
    if not is_ours and plan["model"] != "1nn-dtw":
        train, test = (_equal_length(part, data.longest) for part in (train, test))
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if not is_ours else "default")
        estimator.fit(train.X, train.y)
        if is_ours and estimator.interrupted_:
            raise KeyboardInterrupt  # what is recorded is a whole run
        fitted = time.perf_counter()
        found = scores(estimator, test)
    record = {**plan, "test": found, "fit_seconds": fitted - began}
    record["predict_seconds"] = time.perf_counter() - fitted
    if is_ours:
        record["parameters"] = estimator.model_.num_parameters()
        record["loss"] = estimator.history_[-1]["loss"]
    return plain(record)


def _estimator(data: Any, plan: dict[str, Any]) -> Any:
    import evolving_attention as ea

    if plan["model"] in MODELS:
        kind = ea.TimeSeriesRegressor if data.is_regression else ea.TimeSeriesClassifier
        return kind(**plan["options"], random_state=plan["seed"])
    place = BASELINES[plan["model"]][1 if data.is_regression else 0]
    module, _, name = place.partition(":")
    kind = getattr(importlib.import_module(module), name)
    options = dict(plan["options"])
    if "random_state" in kind._get_param_names():
        options["random_state"] = plan["seed"]
    return kind(**options)


def _equal_length(part: Any, length: int) -> Any:
    """The part with series held at their last value up to ``length``."""
    if isinstance(part.X, np.ndarray):
        return part
    padded = [
        np.pad(one, ((0, 0), (0, length - one.shape[1])), mode="edge") for one in part.X
    ]
    return type(part)(np.stack(padded), part.y, part.is_regression, part.source)


# ---------------------------------------------------------------------------- summary


def summaries(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Per data set and model mean, spread and paired difference; ranks over all."""
    found: dict[str, Any] = {"datasets": {}}
    for dataset in dict.fromkeys(run["dataset"] for run in runs):
        rows = [run for run in runs if run["dataset"] == dataset]
        metric = "accuracy" if "accuracy" in rows[0]["test"] else "rmse"
        by_model: dict[str, dict[int, float]] = {}
        for run in rows:
            by_model.setdefault(run["model"], {})[run["seed"]] = run["test"][metric]
        models = {}
        for model, values in by_model.items():
            mine = [run for run in rows if run["model"] == model]
            models[model] = {
                **_spread(list(values.values())),
                "fit_seconds": float(np.median([run["fit_seconds"] for run in mine])),
            }
            if model != _FIRST and _FIRST in by_model:
                if model in _CONSTANT:
                    values = dict.fromkeys(by_model[_FIRST], values[min(values)])
                models[model]["difference"] = compare(by_model[_FIRST], values)
        found["datasets"][dataset] = {"metric": metric, "models": models}
    found.update(_over_datasets(found["datasets"]))
    return found


def _spread(values: Sequence[float]) -> dict[str, Any]:
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {
        "runs": len(values),
        "mean": float(np.mean(values)),
        "sd": spread,
        "min": float(min(values)),
        "max": float(max(values)),
    }


def compare(first: dict[int, float], other: dict[int, float]) -> dict[str, Any] | None:
    """Paired difference first − other over equal seeds, with its 95 % interval.

    The interval is Student's for the mean of the differences; None for fewer than two.
    Without an equal seed there is no difference.
    """
    seeds = sorted(set(first) & set(other))
    if not seeds:
        return None
    gains = np.array([first[seed] - other[seed] for seed in seeds])
    if len(gains) < 2:
        return {"pairs": len(gains), "mean": float(gains.mean()), "interval": None}
    stats = require("scipy.stats", extra="timeseries", why="for confidence intervals")
    half = stats.t.ppf(0.975, len(gains) - 1) * gains.std(ddof=1) / len(gains) ** 0.5
    mean = float(gains.mean())
    return {
        "pairs": len(gains),
        "mean": mean,
        "interval": [mean - float(half), mean + float(half)],
    }


def _over_datasets(datasets: dict[str, Any]) -> dict[str, Any]:
    """The paper's average rank of classifiers, and relative difference of regressors,
    over the models that have run on all of their data sets."""
    found: dict[str, Any] = {}
    for metric, name in (("accuracy", "average_rank"), ("rmse", "relative_difference")):
        chosen = [one["models"] for one in datasets.values() if one["metric"] == metric]
        if not chosen:
            continue
        common = [m for m in chosen[0] if all(m in models for models in chosen)]
        # Rounded: equal means of other sums are not equal in their last bits.
        scores_of = [
            [round(models[m]["mean"], 12) for m in common] for models in chosen
        ]
        if metric == "accuracy":
            values = average_rank(scores_of, higher_is_better=True)
        else:
            values = average_relative_difference(scores_of)
        found[name] = dict(zip(common, values.tolist(), strict=True))
    return found


def table(found: dict[str, Any]) -> str:
    """The summaries as text."""
    parts = []
    for dataset, one in found["datasets"].items():
        scale = 100 if one["metric"] == "accuracy" else 1
        unit = "accuracy %" if scale == 100 else "RMSE"
        lines = [
            [dataset, unit, "sd", "range", "runs", f"{_FIRST} − it", "95 %", "fit s"]
        ]
        lines += [_row(model, row, scale) for model, row in one["models"].items()]
        parts.append(align(lines))
    for name in ("average_rank", "relative_difference"):
        if name in found:
            title = name.replace("_", " ")
            rows = [[model, f"{value:.3f}"] for model, value in found[name].items()]
            parts.append(align([[title, ""], *rows]))
    return "\n\n".join(parts)


def _row(model: str, row: dict[str, Any], scale: float) -> list[str]:
    digits = 2 if scale == 100 else 4

    def shown(value: float | None, sign: str = "") -> str:
        return "–" if value is None else f"{scale * value:{sign}.{digits}f}"

    gain = row.get("difference")
    interval = gain["interval"] if gain else None
    return [
        model,
        shown(row["mean"]),
        shown(row["sd"]),
        f"{shown(row['min'])}–{shown(row['max'])}",
        str(row["runs"]),
        shown(gain["mean"], "+") if gain else "",
        f"{shown(interval[0], '+')} to {shown(interval[1], '+')}" if interval else "",
        f"{row['fit_seconds']:.1f}",
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
