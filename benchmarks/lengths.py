"""Sentences per second on CoLA's and MRPC's real lengths: ours packs, the others pad.

Every side sees the same batches: "random" as a data loader draws them, "sorted" with
the rows sorted by length first, which spares the others most of their padding. Ours
packs both. Tokenising and building batches happen before the clock.

    python -m benchmarks.lengths --task cola --kinds evolving [--size mini]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks import options as spelled
from benchmarks.models import CHECKPOINT, flops, shape_of
from benchmarks.race import TOLERANCE, race
from benchmarks.worker import Batch

ORDERS = ("random", "sorted")


def token_lengths(task: str, data: Path, count: int) -> list[int]:
    """Tokens of the first ``count`` training rows under MiniLM's (BERT's) tokenizer."""
    import evolving_attention as ea

    train, _ = ea.glue.load(task, data)
    columns = {"cola": ("sentence",), "mrpc": ("sentence1", "sentence2")}[task]
    tokenizer = ea.AutoTokenizer.from_pretrained(CHECKPOINT)
    texts = [train.column(name)[:count] for name in columns]
    found = tokenizer(*[list(t) for t in texts], truncation=True, max_length=128)
    return [len(row) for row in found["input_ids"]]


def batches(lengths: Sequence[int], size: int, vocabulary: int) -> list[Batch]:
    """Random ids with these lengths, cut into batches, padded to each one's longest."""
    rng = np.random.default_rng(0)
    found = []
    for begin in range(0, len(lengths), size):
        some = np.array(lengths[begin : begin + size], dtype=np.int64)
        ids = rng.integers(1, vocabulary, (len(some), some.max()), dtype=np.int64)
        ids[np.arange(ids.shape[1]) >= some[:, None]] = 0
        found.append((ids, some))
    return found


def padding(some: Sequence[Batch]) -> float:
    """Share of the padded places that hold no token."""
    return 1.0 - sum(int(n.sum()) for _, n in some) / sum(ids.size for ids, _ in some)


def measure(
    kind: str, lengths: Sequence[int], options: argparse.Namespace
) -> dict[str, Any]:
    """All sides of one attention kind, in both orders."""
    shape = shape_of(options.size, kind)
    rows = {"random": list(lengths), "sorted": sorted(lengths)}
    sets = {k: batches(v, options.batch, shape.vocabulary) for k, v in rows.items()}
    found = race(
        shape,
        options.dtype,
        sets,
        threads=options.threads,
        rounds=options.rounds,
        sides=options.sides,
        padded=True,
    )
    for order, result in found.items():
        for one in result.values():
            if "median_s" in one:
                one["sentences_per_s"] = len(lengths) / one["median_s"]
        best = max(
            (one.get("sentences_per_s", 0.0), side)
            for side, one in result.items()
            if side != "ours"
        )
        if best[0] and "sentences_per_s" in result.get("ours", {}):
            ratio = result["ours"]["sentences_per_s"] / best[0]
            result["best_peer"] = {"side": best[1], "ours_over_it": ratio}
        result["work"] = {
            "padding": padding(sets[order]),
            "flops": flops(shape, lengths),
        }
    return found


def show(kind: str, found: dict[str, Any], limit_s: float) -> None:
    """Print both orders of one attention kind."""
    for order, result in found.items():
        print(f"{kind}, {order} rows: {result['work']['padding']:.0%} padding")
        for side, one in result.items():
            if "sentences_per_s" in one:
                print(
                    f"  {side:14s} {one['sentences_per_s']:8.1f} sentences/s  "
                    f"spread {one['spread']:.1%}  "
                    f"{limit_s / one['median_s']:.0%} of GEMM"
                )
        if "best_peer" in result:
            best = result["best_peer"]
            print(f"  ours is {best['ours_over_it']:.2f} x {best['side']}")


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    common = ("kinds", "dtype", "threads", "rounds", "sides", "dry")
    own = {"data": spelled.DATA, "size": "mini", "sentences": 256, "batch": 32}
    parser = spelled.parser(__doc__, *common, **own)
    parser.add_argument("--task", choices=("cola", "mrpc"), default="cola")
    options = parser.parse_args(arguments)
    folder = options.data / {"cola": "CoLA", "mrpc": "MRPC"}[options.task]
    lengths = token_lengths(options.task, folder, options.sentences)
    machine = harness.measured_machine(options.threads, options.dtype)
    print(harness.machine_line(machine))
    print(
        f"{len(lengths)} rows of {options.task}: {min(lengths)} to {max(lengths)} "
        f"tokens, mean {np.mean(lengths):.1f}; batches of {options.batch}; logits "
        f"agree within {TOLERANCE[options.dtype]:.0e} of the largest"
    )
    results: dict[str, Any] = {}
    for kind in options.kinds:
        found = results[kind] = measure(kind, lengths, options)
        work = flops(shape_of(options.size, kind), lengths)["total"]
        harness.measure_gemm_again(machine, options.dtype)
        limit = harness.gemm_limit(work, machine, options.dtype)
        for result in found.values():
            result["work"]["gemm_limit_s"] = limit
        show(kind, found, limit)
    if not options.dry:
        settings = spelled.settings(options)
        name = f"lengths-{options.task}-{options.size}-{options.dtype}"
        name += harness.only(options.kinds)
        print(harness.write(name, machine, results, settings=settings))


if __name__ == "__main__":
    main()
