"""Sentences per second on CoLA's and MRPC's real lengths: ours packs, the others pad.

Every side gets the same batches: "random" in a data loader's order, "sorted" with the
rows sorted by length first, which spares the others most of their padding. Ours packs
both. Tokenising and building batches are not timed. The JSON of a task is rewritten
after each order, so that an interrupted run keeps its results.

    python -m benchmarks.lengths --task cola mrpc --kinds evolving [--size mini]
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks import options as spelled
from benchmarks.models import CHECKPOINT, flops, shape_of
from benchmarks.race import TOLERANCE, race
from benchmarks.worker import Batch


def token_lengths(task: str, data: Path, count: int) -> list[int]:
    """Returns the first ``count`` training rows' lengths under MiniLM's tokenizer."""
    import evolving_attention as ea

    train, _ = ea.glue.load(task, data)
    columns = {"cola": ("sentence",), "mrpc": ("sentence1", "sentence2")}[task]
    tokenizer = ea.AutoTokenizer.from_pretrained(CHECKPOINT)
    texts = [train.column(name)[:count] for name in columns]
    found = tokenizer(*[list(t) for t in texts], truncation=True, max_length=128)
    return [len(row) for row in found["input_ids"]]


def batches(lengths: Sequence[int], size: int, vocabulary: int) -> list[Batch]:
    """Returns random ids with these lengths in batches, each padded to its longest."""
    rng = np.random.default_rng(0)
    found = []
    for begin in range(0, len(lengths), size):
        some = np.array(lengths[begin : begin + size], dtype=np.int64)
        ids = rng.integers(1, vocabulary, (len(some), some.max()), dtype=np.int64)
        ids[np.arange(ids.shape[1]) >= some[:, None]] = 0
        found.append((ids, some))
    return found


def padding(some: Sequence[Batch]) -> float:
    """Returns the share of padding among all positions."""
    return 1.0 - sum(int(n.sum()) for _, n in some) / sum(ids.size for ids, _ in some)


def compare(result: dict[str, Any], count: int) -> None:
    """Adds each side's sentences per second, and ours over the best other one."""
    for one in result.values():
        if "median_s" in one:
            one["sentences_per_s"] = count / one["median_s"]
    best = max(
        (one.get("sentences_per_s", 0.0), side)
        for side, one in {"": {}, **result}.items()
        if side != "ours"
    )
    if best[0] and "sentences_per_s" in result.get("ours", {}):
        ratio = result["ours"]["sentences_per_s"] / best[0]
        result["best_peer"] = {"side": best[1], "ours_over_it": ratio}


def show(kind: str, order: str, result: dict[str, Any]) -> None:
    """Prints one order of one attention kind."""
    limit_s, share = result["work"]["gemm_limit_s"], result["work"]["padding"]
    print(f"{kind}, {order} rows: {share:.0%} padding")
    for side, one in result.items():
        if "sentences_per_s" in one:
            print(
                f"  {side:14s} {one['sentences_per_s']:8.1f} sentences/s  "
                f"{harness.shown(one)}  "
                f"{limit_s / one['median_s']:.0%} of GEMM"
            )
    if "best_peer" in result:
        best = result["best_peer"]
        print(f"  ours is {best['ours_over_it']:.2f} x {best['side']}", flush=True)


@dataclass
class Record:
    """The results of one task so far; the file is replaced after each timed order."""

    name: str
    machine: dict[str, Any]
    settings: dict[str, Any]
    dry: bool
    results: dict[str, dict[str, Any]] = field(default_factory=dict)

    def keep(
        self,
        kind: str,
        rows: Sequence[int],
        sets: dict[str, list[Batch]],
        order: str,
        result: dict[str, Any],
    ) -> None:
        """Adds one order of one kind, prints it and stores everything."""
        dtype = self.settings["dtype"]
        work = flops(shape_of(self.settings["size"], kind), rows)
        compare(result, len(rows))
        harness.measure_gemm_again(self.machine, dtype)
        limit = harness.gemm_limit(work["total"], self.machine, dtype)
        result["work"] = {
            "padding": padding(sets[order]),
            "flops": work,
            "gemm_limit_s": limit,
        }
        self.results.setdefault(kind, {})[order] = result
        show(kind, order, result)
        if not self.dry:
            harness.write(self.name, self.machine, self.results, settings=self.settings)


def measure(task: str, options: argparse.Namespace) -> None:
    """Times all kinds, orders and sides on one task."""
    folder = options.data / {"cola": "CoLA", "mrpc": "MRPC"}[task]
    rows = token_lengths(task, folder, options.sentences)
    name = f"lengths-{task}-{options.size}-{options.dtype}"
    record = Record(
        name + harness.only(options.kinds),
        harness.measured_machine(options.threads, options.dtype),
        spelled.settings(options) | {"task": task},
        options.dry,
    )
    print(harness.machine_line(record.machine))
    print(
        f"{len(rows)} rows of {task}: {min(rows)} to {max(rows)} tokens, mean "
        f"{np.mean(rows):.1f}; batches of {options.batch}; logits agree within "
        f"{TOLERANCE[options.dtype]:.0e} of the largest"
    )
    orders = {"random": rows, "sorted": sorted(rows)}
    for kind in options.kinds:
        shape = shape_of(options.size, kind)
        sets = {
            order: batches(some, options.batch, shape.vocabulary)
            for order, some in orders.items()
        }
        race(
            shape,
            options.dtype,
            sets,
            threads=options.threads,
            rounds=options.rounds,
            sides=options.sides,
            padded=True,
            keep=functools.partial(record.keep, kind, rows, sets),
        )


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    common = ("kinds", "dtype", "threads", "rounds", "sides", "dry")
    own = {"data": spelled.DATA, "size": "mini", "sentences": 256, "batch": 32}
    parser = spelled.parser(__doc__, *common, **own)
    tasks = ("cola", "mrpc")
    parser.add_argument("--task", nargs="+", choices=tasks, default=["cola"])
    options = parser.parse_args(arguments)
    for task in options.task:
        measure(task, options)


if __name__ == "__main__":
    main()
