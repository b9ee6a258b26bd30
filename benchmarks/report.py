"""Puts the newest benchmark results into the README and docs/benchmarks.md.

    python -m benchmarks.report [--check]

Both pages contain ``<!-- benchmarks:begin -->`` and ``<!-- benchmarks:end -->``. The
text between them is replaced: in the README by the rows of FRONT, in docs/benchmarks.md
by all rows. The figures of docs/figures are drawn from the same records. A benchmark
without a record is left out. The README and the figure of ratios show the newest
records that keep the rules of benchmarks/rules.py, all from one CPU: the CPU with most
of these rows. docs/benchmarks.md has the newest of all records on each CPU, with their
marks. Records older than the code they measure are printed. --check writes nothing and
fails if a page is out of date or a figure is missing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from benchmarks import rules
from benchmarks.harness import RESULTS, machine_line
from benchmarks.rows import ROWS, Row, rows_of, title_of
from benchmarks.rules import Record

ROOT = Path(__file__).resolve().parent.parent
README, PAGE = ROOT / "README.md", ROOT / "docs" / "benchmarks.md"
FIGURES = ROOT / "docs" / "figures"
BEGIN, END = "<!-- benchmarks:begin -->", "<!-- benchmarks:end -->"
# Rows of the README, if there is a record: six rows at most.
FRONT = (
    "evolving BERT-base training step, float32, batch 8, length 128",
    "evolving BERT-base training step, bfloat16, batch 8, length 128",
    "evolving BERT-base inference, float32, batch 8, length 128",
    "evolving BERT-mini inference on CoLA's lengths, sorted rows "
    "(10% padding for the others), float32",
    "evolving MiniLM fine-tuned on CoLA, float32",
    "evolving BERT-base training, peak memory, float32, batch 8, length 128",
)
MARKED = " [marked below]"
HEAD = (
    "| | ours | PyTorch, or as named | ours is better by | of the GEMM limit |",
    "|---|---|---|---|---|",
)


def newest(folder: Path, admitted: bool = False) -> list[Record]:
    """Returns every benchmark's newest (admitted) record on each CPU."""
    found: dict[tuple[str, str], Record] = {}
    for file in sorted(folder.glob("*.json")):
        record = json.loads(file.read_text(encoding="utf-8"))
        if not {"name", "date", "machine", "results"} <= record.keys():
            continue  # a record of scores, not of speed
        if admitted and not rules.admitted(record):
            continue
        key = record["name"], record["machine"]["cpu"]
        if key not in found or record["date"] >= found[key]["date"]:
            found[key] = record
    return list(found.values())


def latest(records: Iterable[Record]) -> list[Record]:
    """Returns the newest record of each name, on any CPU."""
    by_date = sorted(records, key=lambda one: str(one["date"]))
    return list({one["name"]: one for one in by_date}.values())


def of_one_cpu(records: Iterable[Record]) -> list[Record]:
    """Returns records of the CPU with most rows of FRONT; of several, the newest."""
    by_cpu: dict[str, list[Record]] = {}
    for one in records:
        by_cpu.setdefault(one["machine"]["cpu"], []).append(one)

    def rank(some: list[Record]) -> tuple[int, str]:
        rows = [row for one in some for row in rows_of(one["name"], one)]
        shown = sum(row.headline and row.what in FRONT for row in rows)
        return shown, max(str(one["date"]) for one in some)

    return max(by_cpu.values(), key=rank, default=[])


def machine_name(record: Record) -> str:
    """Returns the machine's line without its GEMM rates."""
    return machine_line(record["machine"]).split(", GEMM")[0]


def gemm(records: list[Record]) -> str:
    """Returns the best rates of a matrix product in these runs."""
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


def by_machine(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Groups records by machine, in the order of ROWS."""
    kinds = list(ROWS)

    def place(name: str) -> tuple[int, str]:
        first = name.split("-")[0]
        return kinds.index(first) if first in kinds else len(kinds), name

    found: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda one: place(one["name"])):
        found.setdefault(machine_name(record), []).append(record)
    return found


def tables(records: list[Record], every: bool = False) -> str:
    """Returns Markdown by machine: rows of FRONT, or every row under headings."""
    parts = []
    for where, some in by_machine(records).items():
        sections: dict[str, list[Row]] = {}
        for one in some:
            title = title_of(one["name"], one) if every else ""
            rows = [
                replace(r, what=r.what + MARKED) if not rules.admitted(one) else r
                for r in rows_of(one["name"], one)
                if every or (r.headline and r.what in FRONT)
            ]
            if rows:
                sections.setdefault(title, []).extend(rows)
        if not sections:
            continue
        days = sorted({one["date"] for one in some})
        date = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        parts.append(f"{where}; {gemm(some)}; {date}:")
        for title, rows in sections.items():
            head = [f"### {title}", ""] if title else []
            parts.append("\n".join([*head, *HEAD, *(row.markdown() for row in rows)]))
    return "\n\n".join(parts)


def provenance(records: list[Record]) -> str:
    """Returns a table of each record's origin and marks."""
    lines = [
        "### Records",
        "",
        "| record | CPU | date | commit | load at start | marks |",
        "|---|---|---|---|---|---|",
    ]
    for one in itertools.chain.from_iterable(by_machine(records).values()):
        if not rows_of(one["name"], one):
            continue
        machine = one["machine"]
        load = machine.get("load_at_start")
        cells = [
            one["name"],
            machine["cpu"],
            one["date"],
            str(machine.get("commit", "unknown")),
            "" if load is None else f"{load:.1f}",
            ", ".join(rules.marks(one)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) if len(lines) > 4 else ""


def headlines(records: list[Record]) -> list[Row]:
    """Returns the rows of the figure; with the CPU if they are from several."""
    found = [
        (row, one["machine"]["cpu"])
        for one in records
        for row in rows_of(one["name"], one)
        if row.headline and row.ratio and row.peer
    ]
    if len({cpu for _, cpu in found}) < 2:
        return [row for row, _ in found]
    return [replace(row, what=f"{row.what}, {cpu}") for row, cpu in found]


def figures(records: list[Record], front: list[Record]) -> dict[str, str]:
    """Returns the alternative text of each figure these records give, by name."""
    found = {}
    if headlines(front):
        found["ratios"] = "How many times better ours is than each of the others"
    for one in records:
        if one["name"].startswith("growth-") and any(one["results"].values()):
            found[one["name"]] = "Time of a training step against length and batch"
    return found


def draw(
    records: list[Record],
    front: list[Record],
    folder: Path,
) -> None:
    """Writes every figure as SVG; the ratios from the records of the README."""
    from benchmarks import figures as pictures

    by_name = {one["name"]: one for one in latest(records)}
    for name in figures(records, front):
        path = folder / f"{name}.svg"
        if name == "ratios":
            pictures.ratios(headlines(front), path)
        else:
            pictures.growth(by_name[name], path)


def page_text(
    records: list[Record],
    shown: dict[str, str],
    page: Path,
    folder: Path,
    every: bool,
) -> str:
    """Returns the text between the markers of a page: tables and figures."""
    parts = [tables(records, every), provenance(records) if every else ""]
    for name, shows in shown.items():
        if every or name == "ratios":
            path = os.path.relpath(folder / f"{name}.svg", page.parent)
            parts.append(f"![{shows}]({Path(path).as_posix()})")
    return "\n\n".join(part for part in parts if part)


def say_older(records: list[Record]) -> None:
    """Prints the records whose code has changed since they were made."""
    for one in records:
        told = rules.older(one) if rows_of(one["name"], one) else None
        if told:
            where = f"{one['name']}, {one['machine']['cpu']}"
            print(f"older than the code it measures: {where} ({told})")


def insert(page: str, text: str) -> str:
    """Returns the page with the text between its markers."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise SystemExit(f"the page needs {BEGIN} and {END} exactly once each")
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}"


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--readme", type=Path, default=README)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--figures", type=Path, default=FIGURES)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    records = newest(options.results)
    front = of_one_cpu(newest(options.results, admitted=True))
    shown = figures(records, front)
    stale = [f for f in shown if not (options.figures / f"{f}.svg").exists()]
    for path, every in ((options.readme, False), (options.page, True)):
        old = path.read_text(encoding="utf-8")
        some = records if every else front
        new = insert(old, page_text(some, shown, path, options.figures, every))
        if new != old:
            stale.append(str(path))
        if not options.check:
            path.write_text(new, encoding="utf-8")
    if options.check:
        if stale:
            print(f"out of date, run python -m benchmarks.report: {', '.join(stale)}")
        return int(bool(stale))
    draw(records, front, options.figures)
    say_older(records)
    return 0


if __name__ == "__main__":
    sys.exit(main())
