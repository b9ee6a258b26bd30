"""What benchmarks over seeds share: spreads, paired intervals, tables in pages."""

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
    """Mean and standard deviation; NaN of nothing, no deviation of one."""
    if not values:
        return float("nan"), float("nan")
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return statistics.mean(values), spread


def mean_and_sd(values: Sequence[float], places: int) -> str:
    """``mean ± sd``; of one value, which has no deviation, the value alone."""
    mean, sd = mean_sd(values)
    if len(values) == 1:
        return f"{mean:.{places}f}"
    return f"{mean:.{places}f} ± {sd:.{places}f}"


def interval(gains: Sequence[float], digits: int = 1, overlap: float = 0.0) -> str:
    """Mean of the differences and Student's 95 % interval of that mean.

    With resamples of the same rows the runs depend on each other; ``overlap``, rows to
    test on over rows to train on, widens the interval as Nadeau and Bengio derive it
    (Machine Learning 52, 2003): variance s² · (1/n + overlap).
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
    """Lines of Markdown: each arm's means and deviations, and paired differences.

    Args:
        title: of the first column.
        by_arm: of each arm the curve of each run, by what names the run in all arms.
        values: what the columns show of a curve.
        pairs: (arm, base) whose difference has a line, over the runs of both.
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
    """Put a table between the page's ``<!-- marker:begin -->`` and its end."""
    begin, end = f"<!-- {marker}:begin -->", f"<!-- {marker}:end -->"
    whole = page.read_text(encoding="utf-8")
    before, rest = whole.split(begin)
    after = rest.split(end)[1]
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def as_json(record: dict[str, Any]) -> str:
    """The record, with each list of numbers on one line."""
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    return re.sub(r"\[\n[-\d\s.,e+]*\]", lambda found: "".join(found[0].split()), text)


def short(run: dict[str, Any]) -> dict[str, Any]:
    """A run without its curves and lists: what is printed while a series goes on."""
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
    """All runs of a JSON file, after those that it lacks; kept after each of them.

    Args:
        result: the file; it may hold runs of another day.
        record: ``name``, ``settings`` and an empty list ``runs``.
        wanted: what names a run, such as ``{"arm": "vanilla", "seed": 1}``.
        run: trains one; its result is stored beside its names.
        machine: the machine as it is now; asked once.

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
