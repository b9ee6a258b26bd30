"""Shared parts of benchmarks over seeds: spreads, paired intervals, page tables."""

from __future__ import annotations

import functools
import json
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent / "docs"
Value = tuple[int, Callable[[Any], float]]  # decimal places, and a number of a curve


def mean_sd(values: Sequence[float]) -> tuple[float, float]:
    """Returns mean and standard deviation; (NaN, NaN) for none, deviation 0 for one."""
    if not values:
        return float("nan"), float("nan")
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return statistics.mean(values), spread


def mean_and_sd(values: Sequence[float], places: int) -> str:
    """Formats ``mean ± sd``; a single value without a deviation."""
    mean, sd = mean_sd(values)
    if len(values) == 1:
        return f"{mean:.{places}f}"
    return f"{mean:.{places}f} ± {sd:.{places}f}"


def interval(gains: Sequence[float], digits: int = 1, overlap: float = 0.0) -> str:
    """Returns the mean of the differences and Student's 95 % interval of that mean.

    Resamples of the same rows depend on each other; ``overlap``, test rows over
    training rows, widens the interval as derived by Nadeau and Bengio (Machine Learning
    52, 2003): variance s² · (1/n + overlap).
    """
    from scipy import stats

    mean, sd = mean_sd(gains)
    if len(gains) < 2:
        return f"{mean:+.{digits}f}"
    half = (
        float(stats.t.ppf(0.975, len(gains) - 1))
        * sd
        * (1 / len(gains) + overlap) ** 0.5
    )
    low, high = mean - half, mean + half
    return f"{mean:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})"


def rows(
    title: str,
    by_arm: dict[str, dict[Any, Any]],
    values: dict[str, Value],
    pairs: Iterable[tuple[str, str]],
) -> list[str]:
    """Returns Markdown lines: each arm's means and deviations, and paired differences.

    Args:
        title: title of the first column.
        by_arm: curves of each arm, by the key that identifies a run in all arms.
        values: the columns' values of a curve.
        pairs: (arm, base) whose difference gets a line, over the runs of both.
    """
    lines = [
        f"| {title} | runs | {' | '.join(values)} |",
        f"|{'---|' * (len(values) + 2)}",
    ]
    for arm, found in by_arm.items():
        cells = []
        for places, value in values.values():
            some = [value(curve) for curve in found.values()]
            cells.append(mean_and_sd(some, places))
        lines.append(f"| {arm} | {len(found)} | {' | '.join(cells)} |")
    for arm, base in pairs:
        ours, theirs = by_arm.get(arm, {}), by_arm.get(base, {})
        if both := sorted(set(ours) & set(theirs), key=str):
            cells = [
                interval([value(ours[k]) - value(theirs[k]) for k in both], places)
                for places, value in values.values()
            ]
            lines.append(f"| {arm} − {base} | {len(both)} | {' | '.join(cells)} |")
    return lines


def write_table(page: Path, marker: str, text: str) -> None:
    """Writes a table between ``<!-- marker:begin -->`` of the page and its end."""
    begin, end = f"<!-- {marker}:begin -->", f"<!-- {marker}:end -->"
    whole = page.read_text(encoding="utf-8")
    before, rest = whole.split(begin)
    after = rest.split(end)[1]
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def as_json(record: dict[str, Any]) -> str:
    """Returns the record as JSON, with each list of numbers on one line."""
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    return re.sub(r"\[\n[-\d\s.,e+]*\]", lambda found: "".join(found[0].split()), text)


def short(run: dict[str, Any]) -> dict[str, Any]:
    """Returns a run without curves and lists, to print while a series runs."""
    found = {}
    for name, value in run.items():
        if isinstance(value, dict):
            value = short(value)
        if value not in ({}, None) and not isinstance(value, list):
            found[name] = value
    return found


def series(
    result: Path,
    record: dict[str, Any],
    wanted: Iterable[dict[str, Any]],
    run: Callable[[dict[str, Any]], dict[str, Any]],
    machine: Callable[[], dict[str, Any]],
) -> list[dict[str, Any]]:
    """Runs what a JSON file lacks, saves after each run, and returns all of its runs.

    Args:
        result: the file; it may contain runs of another day.
        record: ``name``, ``settings`` and an empty list ``runs``.
        wanted: keys of the runs, such as ``{"arm": "vanilla", "seed": 1}``.
        run: trains one; its result is stored together with its key.
        machine: returns the present machine; called once.

    Raises:
        SystemExit: the file has runs with other settings.
    """
    machine = functools.cache(machine)
    if result.exists():
        found = json.loads(result.read_text(encoding="utf-8"))
        if found["settings"] != record["settings"]:
            raise SystemExit(f"{result} has other settings: {found['settings']}")
        record = found
    for names in wanted:
        if any(names.items() <= one.items() for one in record["runs"]):
            continue
        record["runs"].append({**names, **run(names)})
        record["machine"] = machine()
        result.write_text(as_json(record), encoding="utf-8")
        print(short(record["runs"][-1]), flush=True)
    return list(record["runs"])
