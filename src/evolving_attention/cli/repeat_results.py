"""Results of one command over several seeds: records, tables, comparisons."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention.cli.attention_arguments import refuse
from evolving_attention.cli.timeseries_results import align
from evolving_attention.data.json_objects import read_one_object
from evolving_attention.errors import DataError

RUN, RESULTS = "run.json", "results.json"
_PARTS = ("validation", "test")  # parts in records of time series
_NOT_SCORES = (  # times, counts and settings
    "_runtime",
    "_per_second",
    "_samples",
    "_series",
    "_pictures",
    "_skipped",
    "_total",
    "_thresh",
    "_tokens",
    "_tokens_seen",
)
_OTHERS = {"seed", "epoch", "epochs", "best_epoch", "best_step", "parameters"}
_OTHERS |= {"fit_seconds", "seconds", "total_flos"}
_MOST_COLUMNS = 10  # limit up to which the table shows each seed


def scores_of(record: Mapping[str, Any]) -> dict[str, float]:
    """Returns the losses and metrics of one run's record, without times and counts.

    Example:
        >>> scores_of({"seed": 1, "eval_f1": 0.5, "eval_runtime": 3.0, "epoch": 2.0})
        {'eval_f1': 0.5}
    """
    found: dict[str, float] = {}
    for name, value in record.items():
        if name in _PARTS and isinstance(value, Mapping):
            inner = {f"{name}_{key}": one for key, one in value.items()}
            found |= scores_of(inner)
            continue
        plain_name = name.removesuffix("_mm")  # suffix of MNLI's second dev set
        if name in _OTHERS or plain_name.endswith(_NOT_SCORES) or "_mem_" in name:
            continue
        number = number_of(value)
        if number is not None:
            found[name] = number
    return found


def number_of(value: Any) -> float | None:
    """Returns a number of a record, in which NaN and infinity are text; else None."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    try:
        return float(value) if is_number or value in ("nan", "inf", "-inf") else None
    except OverflowError:  # no command writes such a number
        return None


def read_record(file: Path) -> dict[str, Any] | None:
    """Returns the record of a finished run; None if there is none.

    Raises:
        DataError: the file is damaged.
    """
    if not file.exists():
        return None
    return read_one_object(file, "the record of a run", "remove the file to run again")


def read_run(file: Path, seed: int) -> dict[str, Any] | None:
    """Returns the record of the finished run with this seed; None if there is none.

    Raises:
        DataError: the file is damaged, or of another seed.
    """
    record = read_record(file)
    if record is not None and record.get("seed") != seed:
        raise DataError(
            f"has the seed {record.get('seed')!r:.80}, expected {seed}; remove the "
            "file to run again",
            str(file),
        )
    return record


def read_runs(folder: Path) -> list[dict[str, Any]]:
    """Returns the runs of another command over several seeds.

    Raises:
        ConfigError: the folder has no results over seeds.
        DataError: the results are damaged.
    """
    record = read_record(folder / RESULTS)
    runs = None if record is None else record.get("runs")
    if not isinstance(runs, list) or not all(
        isinstance(run, dict) and isinstance(run.get("seed"), int) for run in runs
    ):
        raise refuse(
            "compare",
            folder,
            f"{RESULTS} of a command with --seeds in it",
            "give the --output_dir of such a command, after it has ended",
        )
    return runs


def collected(
    runs: Sequence[dict[str, Any]],
    table: str | None = None,
    compare: str | None = None,
) -> dict[str, Any]:
    """Collects all seeds' ``runs``, ``summary``, ``comparison`` and ``table``.

    Args:
        runs: one record per seed.
        table: table of the runs, if the command has its own.
        compare: folder of other runs.

    Raises:
        ConfigError, DataError: the folder cannot be used for comparison.
        MissingExtraError: SciPy is not installed, and there are runs to compare with.
    """
    summary = _summary(runs)
    results: dict[str, Any] = {"runs": list(runs), "summary": summary}
    results["table"] = _table(runs, summary) if table is None else table
    if compare is not None:
        others = read_runs(Path(compare))
        results["comparison"] = found = _comparison(runs, others, compare)
        results["table"] += "\n\n" + _compared(found, compare)
    return results


def _by_name(runs: Sequence[Mapping[str, Any]]) -> dict[str, dict[int, float]]:
    """Returns scores by name, then by seed; only scores that every run has.

    Sorted by name, because a record read from a file has lost its order.
    """
    every = {int(run["seed"]): scores_of(run) for run in runs}
    names = sorted(
        n for n in next(iter(every.values()), {}) if all(n in s for s in every.values())
    )
    return {name: {seed: s[name] for seed, s in every.items()} for name in names}


def _summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    found = {}
    for name, values in _by_name(runs).items():
        numbers = np.array([*values.values()])
        sd = float(numbers.std(ddof=1)) if len(numbers) > 1 else None
        found[name] = {"mean": float(numbers.mean()), "sd": sd, "seeds": len(numbers)}
    return found


def _comparison(
    runs: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]], folder: str
) -> dict[str, Any]:
    """Returns each score's difference, this less the other, over the common seeds."""
    from evolving_attention.metrics import paired_difference

    mine, theirs = _by_name(runs), _by_name(others)
    found = {}
    for name in mine.keys() & theirs.keys():
        seeds = [seed for seed in mine[name] if seed in theirs[name]]
        if seeds:
            pair = [[s[name][seed] for seed in seeds] for s in (mine, theirs)]
            if not np.isfinite(pair).all():
                continue
            found[name] = {**paired_difference(*pair)._asdict(), "seeds": seeds}
    if not found:
        raise refuse(
            "compare",
            folder,
            "runs with seeds and scores of this command's",
            f"it has the seeds {_seeds(others)}, this command {_seeds(runs)}",
        )
    return {name: found[name] for name in mine if name in found}


def check_comparable(compare: str, seeds: Sequence[int]) -> None:
    """Refuse an unusable folder for comparison before any run.

    Raises:
        ConfigError, DataError: the folder has no results, or none of these seeds.
    """
    others = read_runs(Path(compare))
    if not {run["seed"] for run in others} & set(seeds):
        raise refuse(
            "compare",
            compare,
            f"one of the seeds {' '.join(map(str, seeds))}",
            f"it has {_seeds(others)}: give seeds that both have",
        )


def _seeds(runs: Sequence[Mapping[str, Any]]) -> str:
    return " ".join(str(run["seed"]) for run in runs)


def _table(runs: Sequence[dict[str, Any]], summary: dict[str, Any]) -> str:
    """Formats a line for each score: mean, sd, and each seed if they are few."""
    every = _by_name(runs)
    shown = runs if len(runs) <= _MOST_COLUMNS else ()
    head = ["score", "mean", "sd", *(f"seed {run['seed']}" for run in shown)]
    lines = [head]
    for name, values in every.items():
        one = summary[name]
        cells = [one["mean"], one["sd"], *(values[run["seed"]] for run in shown)]
        lines.append([name, *map(_number, cells)])
    return align(lines)


def _compared(found: dict[str, Any], folder: str) -> str:
    """Formats the table of differences."""
    head = [f"less {folder}", "mean", "sd", "95 % from", "to", "seeds"]
    lines = [head]
    for name, one in found.items():
        cells = [_number(one[k], "+") for k in ("mean", "sd", "low", "high")]
        cells[1] = _number(one["sd"])
        lines.append([name, *cells, str(one["pairs"])])
    return align(lines)


def _number(value: float | None, sign: str = "") -> str:
    if value is None:
        return "-"
    return f"{value:{sign}.4f}" if math.isfinite(value) else str(value)
