"""Put the newest benchmark results into the README, between its two markers.

    python -m benchmarks.report [--check] [--readme README.md]

The README holds ``<!-- benchmarks:begin -->`` and ``<!-- benchmarks:end -->``; what is
between them is replaced. --check writes nothing and fails when it is out of date.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, machine_line

README = Path(__file__).resolve().parent.parent / "README.md"
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


def training_rows(record: dict[str, Any]) -> list[str]:
    """Table rows of a training-step benchmark."""
    settings, rows = record["settings"], []
    for kind, result in record["results"].items():
        if "ours" not in result or "torch" not in result:
            continue
        ours, theirs = (result[side]["median_s"] * 1e3 for side in ("ours", "torch"))
        what = f"{kind} BERT-{settings['size']} training step, {settings['dtype']}"
        what += f", batch {settings['batch']}, length {settings['length']}"
        rows.append(
            f"| {what} | {ours:.0f} ms | {theirs:.0f} ms | {theirs / ours:.2f}× |"
        )
    return rows


def cola_rows(record: dict[str, Any]) -> list[str]:
    """Table rows of the CoLA benchmark."""
    rates = {k: v["sentences_per_s"] for k, v in record["results"].items()}
    theirs, rows = rates.get("transformers"), []
    for kind in ("vanilla", "evolving"):
        ours = rates.get(f"ours {kind}")
        if ours and theirs:
            rows.append(
                f"| {kind} MiniLM fine-tuned on CoLA; transformers' Trainer (vanilla, "
                f"dynamic padding) | {ours:.0f} sentences/s | {theirs:.0f} sentences/s "
                f"| {ours / theirs:.2f}× |"
            )
    return rows


def table(records: dict[str, dict[str, Any]]) -> str:
    """All results as markdown: one table per machine."""
    machines: dict[str, list[str]] = {}
    for name, record in sorted(records.items()):
        make = cola_rows if name == "cola" else training_rows
        rows = make(record)
        if rows:
            where = f"{machine_line(record['machine'])}; {record['date']}"
            machines.setdefault(where, []).extend(rows)
    parts = []
    for where, rows in machines.items():
        head = ["| | ours | PyTorch | speed-up |", "|---|---|---|---|"]
        parts.append("\n".join([where + ":", "", *head, *rows]))
    return "\n\n".join(parts)


def insert(readme: str, text: str) -> str:
    """The README with the text between its markers."""
    if readme.count(BEGIN) != 1 or readme.count(END) != 1:
        raise SystemExit(f"the README needs {BEGIN} and {END} exactly once each")
    before, rest = readme.split(BEGIN)
    return f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}"


def main(arguments: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--readme", type=Path, default=README)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    old = options.readme.read_text(encoding="utf-8")
    new = insert(old, table(newest(options.results)))
    if options.check:
        return int(new != old)
    options.readme.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
