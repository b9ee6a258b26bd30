"""How the training step grows with length and batch, evolving against vanilla.

    python -m benchmarks.growth [--size base] [--torch]

The JSON is written again after each point; ``python -m benchmarks.report`` draws it.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Callable
from typing import Any

from benchmarks import harness
from benchmarks import options as spelled
from benchmarks.models import KINDS, batch_of, flops, our_model, our_step, shape_of

SIDES = (*KINDS, *(f"torch {kind}" for kind in KINDS))


def torch_steps(batch: int, length: int, options: argparse.Namespace) -> dict:
    """The step of eager PyTorch of both kinds."""
    from benchmarks.peers.torch_bert import BertClassifier
    from benchmarks.training import torch_step

    steps = {}
    for kind in KINDS:
        shape = shape_of(options.size, kind)
        data, bf16 = batch_of(shape, batch, length), options.dtype == "bfloat16"
        steps[f"torch {kind}"] = torch_step(BertClassifier(shape), *data, bf16)
    return steps


def point(batch: int, length: int, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of a step of both kinds, interleaved, and their ratio round by round."""
    steps: dict[str, Callable[[], None]] = {}
    work = {}
    for kind in KINDS:
        shape = shape_of(options.size, kind)
        ids, labels = batch_of(shape, batch, length)
        steps[kind] = our_step(our_model(shape, options.dtype), ids, labels)
        work[kind] = flops(shape, [length] * batch, training=True)["total"]
    if options.torch:
        steps |= torch_steps(batch, length, options)
    times = harness.interleave(steps, options.rounds, warmup=1)
    found: dict[str, Any] = {k: harness.summarize(s) for k, s in times.items()}
    for side in ("", "torch ") if options.torch else ("",):
        pairs = zip(times[f"{side}evolving"], times[f"{side}vanilla"], strict=True)
        found[f"{side}ratio"] = statistics.median(e / v for e, v in pairs)
    return found | {"batch": batch, "length": length, "flops": work}


def show(one: dict[str, Any]) -> None:
    """Print one point."""
    sides = [side for side in SIDES if side in one]
    times = ", ".join(f"{side} {one[side]['median_s'] * 1e3:.1f} ms" for side in sides)
    print(
        f"{one['batch']}x{one['length']}: {times}, ratio {one['ratio']:.2f}", flush=True
    )


def odd_cost(axis: str, points: list[dict[str, Any]]) -> float | None:
    """The dearest odd size: seconds per FLOP against those of a size one apart."""
    worst = None
    for one, other in itertools.permutations(points, 2):
        if one[axis] % 2 == 0 or abs(one[axis] - other[axis]) != 1:
            continue
        for kind in KINDS:
            cost = [p[kind]["median_s"] / p["flops"][kind] for p in (one, other)]
            worst = max(worst or 0.0, cost[0] / cost[1])
    return worst


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    common = ("size", "dtype", "threads", "rounds", "dry")
    parser = spelled.parser(__doc__, *common)
    lengths = [32, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512]
    sizes = [1, 2, 3, 4, 7, 8, 9, 16, 17, 31, 32, 63, 64]
    parser.add_argument("--lengths", nargs="+", type=int, default=lengths)
    parser.add_argument("--batches", nargs="+", type=int, default=sizes)
    parser.add_argument("--batch", type=int, default=2, help="while lengths grow")
    parser.add_argument("--length", type=int, default=32, help="while batches grow")
    parser.add_argument("--torch", action="store_true", help="time eager PyTorch too")
    options = parser.parse_args(arguments)
    machine = harness.measured_machine(options.threads, options.dtype)
    print(harness.machine_line(machine))
    cases = {
        "length": [(options.batch, length) for length in options.lengths],
        "batch": [(batch, options.length) for batch in options.batches],
    }
    results: dict[str, list[dict[str, Any]]] = {}
    settings = spelled.settings(options)
    name = f"growth-{options.size}-{options.dtype}"
    for axis, points in cases.items():
        for batch, length in points:
            one = point(batch, length, options)
            results.setdefault(axis, []).append(one)
            show(one)
            if not options.dry:  # what is measured is kept when the run is cut short
                harness.write(name, machine, results, settings=settings)
        cost = odd_cost(axis, results[axis])
        if cost is not None:
            print(f"odd sizes of {axis} cost at most {cost:.2f} of those beside them")


if __name__ == "__main__":
    main()
