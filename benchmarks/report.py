"""Put the newest benchmark results into the README and docs/benchmarks.md.

    python -m benchmarks.report [--check]

Both hold ``<!-- benchmarks:begin -->`` and ``<!-- benchmarks:end -->``; what is between
them is replaced: in the README by the headlines, in docs/benchmarks.md by every row.
docs/benchmarks.png shows the headlines. --check writes nothing and fails when a page is
out of date.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, machine_line
from benchmarks.rows import ROWS, Row, rows_of

ROOT = Path(__file__).resolve().parent.parent
README, PAGE = ROOT / "README.md", ROOT / "docs" / "benchmarks.md"
PICTURE = ROOT / "docs" / "benchmarks.png"
BEGIN, END = "<!-- benchmarks:begin -->", "<!-- benchmarks:end -->"


def newest(folder: Path) -> dict[str, dict[str, Any]]:
    """The latest result of every benchmark name."""
    found: dict[str, dict[str, Any]] = {}
    for file in sorted(folder.glob("*.json")):
        record = json.loads(file.read_text(encoding="utf-8"))
        if not {"name", "date", "machine", "results"} <= record.keys():
            continue  # a record of scores, not of speed
        old = found.get(record["name"])
        if old is None or record["date"] >= old["date"]:
            found[record["name"]] = record
    return found


def machine_name(record: dict[str, Any]) -> str:
    """The machine without what was measured of it."""
    return machine_line(record["machine"]).split(", GEMM")[0]


def gemm(records: list[dict[str, Any]]) -> str:
    """The best rates of a product of matrices in these runs."""
    told = []
    for dtype, key in (("", "gemm_gflops"), ("bfloat16 ", "gemm_gflops_bfloat16")):
        rates: dict[str, float] = {}
        for record in records:
            for side, rate in record["machine"].get(key, {}).items():
                rates[side] = max(rate, rates.get(side, 0.0))
        if rates:
            both = ", ".join(f"{side} {rate:.0f}" for side, rate in rates.items())
            told.append(dtype + both)
    return "GEMM GFLOP/s: " + ("; ".join(told) or "not measured")


def by_machine(records: dict[str, dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Records in the order of ROWS, by machine."""
    kinds = list(ROWS)

    def place(name: str) -> tuple[int, str]:
        first = name.split("-")[0]
        return kinds.index(first) if first in kinds else len(kinds), name

    found: dict[str, list[dict[str, Any]]] = {}
    for name in sorted(records, key=place):
        record = records[name]
        found.setdefault(machine_name(record), []).append(record)
    return found


def table(records: dict[str, dict[str, Any]], every: bool = False) -> str:
    """Results as markdown, one table per machine; ``every`` row or the headlines."""
    parts = []
    for where, some in by_machine(records).items():
        rows = [r for one in some for r in rows_of(one["name"], one)]
        rows = [row for row in rows if every or row.headline]
        if not rows:
            continue
        days = sorted({one["date"] for one in some})
        date = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        head = [
            f"{where}; {gemm(some)}; {date}:",
            "",
            "| | ours | PyTorch, or as named | ours is better by | of the GEMM limit |",
            "|---|---|---|---|---|",
        ]
        parts.append("\n".join([*head, *(row.markdown() for row in rows)]))
    return "\n\n".join(parts)


def picture(records: dict[str, dict[str, Any]], path: Path) -> None:
    """All headline ratios as bars."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [r for name, one in records.items() for r in rows_of(name, one)]
    rows = sorted((r for r in rows if r.headline and r.ratio), key=lambda r: r.ratio)
    if not rows:
        return
    figure, axes = pyplot.subplots(figsize=(11, 0.8 + 0.3 * len(rows)))
    values = [row.ratio for row in rows]
    colors = ["#55a868" if value >= 1 else "#c44e52" for value in values]
    bars = axes.barh([_label(row) for row in rows], values, color=colors)
    axes.bar_label(bars, [f"{value:.2f}×" for value in values], padding=3, fontsize=8)
    axes.axvline(1, color="#444444", linewidth=0.8)
    axes.set_xlabel("ours is better by")
    axes.tick_params(axis="y", labelsize=8)
    axes.margins(x=0.12)
    figure.tight_layout()
    figure.savefig(path, dpi=100, metadata={"Software": None})
    pyplot.close(figure)


def _label(row: Row) -> str:
    """What is compared, and with whom where it is not PyTorch."""
    _, bracket, side = row.other.partition("(")
    text = row.what.split("; ")[0]
    return f"{text} | {side.rstrip(')')}" if bracket else text


def insert(page: str, text: str) -> str:
    """The page with the text between its markers."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise SystemExit(f"the page needs {BEGIN} and {END} exactly once each")
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}"


def main(arguments: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--readme", type=Path, default=README)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--picture", type=Path, default=PICTURE)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    records, stale = newest(options.results), 0
    for path, every in ((options.readme, False), (options.page, True)):
        old = path.read_text(encoding="utf-8")
        new = insert(old, table(records, every))
        stale |= int(new != old)
        if not options.check:
            path.write_text(new, encoding="utf-8")
    if options.check:
        return stale
    picture(records, options.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
