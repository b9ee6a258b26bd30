"""The paper's time-series models against aeon's quick baselines, over seeds.

Runs what benchmarks/timeseries_reproduce.py runs, in the same way: one JSON
file per run in --output, and what is there is not run again, so that it can be cut
short and repeated. Then all runs go into one record, and the tables into docs.

    python -m benchmarks.timeseries --output out/timeseries --seeds 10 [--minutes 9]
    python -m benchmarks.timeseries --only-page    # the tables again, from the record
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import harness
from benchmarks import options as spelled

RESULT = harness.RESULTS / "timeseries.json"
PAGE = Path(__file__).resolve().parent.parent / "docs" / "timeseries_results.md"
BEGIN, END = "<!-- timeseries:begin -->", "<!-- timeseries:end -->"


def collect(folder: Path) -> list[dict[str, Any]]:
    """All runs that are in the folder, by data set, seed and model."""
    from benchmarks.timeseries_settings import BASELINES, DATASETS, MODELS

    models, sets = [*MODELS, *BASELINES], [*DATASETS]
    runs = [json.loads(file.read_text("utf-8")) for file in folder.glob("*/*-*.json")]

    def place(run: dict[str, Any]) -> tuple[Any, ...]:
        known = run["dataset"] in sets
        first = sets.index(run["dataset"]) if known else len(sets)
        return first, run["dataset"], run["seed"], models.index(run["model"])

    return sorted(runs, key=place)


def tables(runs: Sequence[dict[str, Any]]) -> str:
    """Markdown: one table per data set, then the metrics over all of them."""
    from benchmarks.timeseries_reproduce import summaries
    from benchmarks.timeseries_settings import PUBLISHED

    found = summaries(runs)
    parts = []
    for dataset, one in found["datasets"].items():
        percent = one["metric"] == "accuracy"
        lines = [f"### {dataset}", "", _head(percent), "|---|---|---|---|---|---|---|"]
        for model, row in one["models"].items():
            lines.append(_row(model, row, percent))
        for model, score in PUBLISHED.get(dataset, {}).items():
            lines.append(f"| {model}, published | {100 * score:.2f} | | | | | |")
        parts.append("\n".join(lines))
    over = {
        "average_rank": "average rank over the classification sets",
        "relative_difference": "average relative difference of RMSE (Eq. 12)",
    }
    for name, title in over.items():
        if name in found:
            values = ", ".join(f"{m} {v:.3f}" for m, v in found[name].items())
            parts.append(f"{title[0].upper()}{title[1:]}: {values}.")
    return "\n\n".join(parts)


def _head(percent: bool) -> str:
    unit = "accuracy %" if percent else "RMSE"
    return f"| model | {unit}, mean ± sd | range | runs | ea-dc-t − it | 95 % | fit |"


def _row(model: str, row: dict[str, Any], percent: bool) -> str:
    scale, digits = (100, 2) if percent else (1, 4)

    def shown(value: float, sign: str = "") -> str:
        return f"{scale * value:{sign}.{digits}f}"

    spread = "" if row["sd"] is None else f" ± {shown(row['sd'])}"
    gain = row.get("difference")
    interval = gain["interval"] if gain else None
    cells = [
        model,
        shown(row["mean"]) + spread,
        f"{shown(row['min'])} to {shown(row['max'])}",
        str(row["runs"]),
        shown(gain["mean"], "+") if gain else "",
        f"{shown(interval[0], '+')} to {shown(interval[1], '+')}" if interval else "",
        f"{row['fit_seconds']:.1f} s",
    ]
    return f"| {' | '.join(cells)} |"


def write_page(text: str, page: Path) -> None:
    """Put the tables between the markers of the page."""
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    from benchmarks import timeseries_reproduce as reproduce
    from benchmarks.timeseries_settings import ReproduceArguments
    from evolving_attention.cli.common import set_up_logging

    parser = spelled.parser(__doc__, "threads", "dry")
    parser.add_argument("--output", type=Path, default=Path("out/timeseries"))
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--minutes", type=float, help="begin no run after them")
    parser.add_argument("--only-collect", action="store_true", help="run nothing")
    parser.add_argument("--only-page", action="store_true", help="read the record")
    parser.add_argument("--result", type=Path, default=RESULT)
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    if options.only_page:
        runs = json.loads(options.result.read_text("utf-8"))["runs"]
        write_page(tables(runs), options.page)
        return
    harness.set_threads(options.threads)
    set_up_logging()
    if not options.only_collect:
        until = time.monotonic() + 60 * options.minutes if options.minutes else None
        reproduce.run_all(
            ReproduceArguments(
                datasets=options.datasets,
                models=options.models,
                seeds=options.seeds,
                output_dir=str(options.output),
            ),
            until=until,
        )
    runs = collect(options.output)
    print(tables(runs))
    if options.dry or not runs:
        return
    record = {"name": "timeseries", "machine": harness.machine(options.threads)}
    record["runs"] = runs
    options.result.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record, indent=1) + "\n"
    options.result.write_text(text, encoding="utf-8")
    if options.page.exists():
        write_page(tables(runs), options.page)


if __name__ == "__main__":
    main()
