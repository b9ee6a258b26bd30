"""Growth of the training step with length and batch, evolving against vanilla.

    python -m benchmarks.growth [--size base] [--torch]

All sizes are interleaved, so that a slow minute of the machine bends no curve.
The JSON is rewritten after each round; ``python -m benchmarks.report`` draws it.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks import harness
from benchmarks import options as spelled
from benchmarks.models import KINDS, batch_of, flops, our_model, our_step, shape_of

SIDES = (*KINDS, *(f"torch {kind}" for kind in KINDS))
Size = tuple[int, int]  # batch, length
Seconds = dict[tuple[Size, str], list[float]]


def trained(side: str, options: argparse.Namespace) -> Callable[..., Any]:
    """Builds a model and its optimizer; the result maps a batch to the step on it."""
    kind = side.split()[-1]
    shape = shape_of(options.size, kind)
    if side == kind:
        from evolving_attention.optim import AdamW

        model = our_model(shape, options.dtype)
        optimizer = AdamW(model.parameters(), lr=2e-5)
        return partial(our_step, model, optimizer=optimizer)
    from benchmarks.peers.torch_bert import BertClassifier, adamw
    from benchmarks.training import torch_step

    peer = BertClassifier(shape)
    bf16 = options.dtype == "bfloat16"
    return partial(torch_step, peer, bf16=bf16, optimizer=adamw(peer))


def steps_of(
    sizes: list[Size], sides: list[str], options: argparse.Namespace
) -> dict[tuple[Size, str], Callable[[], None]]:
    """Returns a step for every size and side; each side has one model for all sizes."""
    step_on = {side: trained(side, options) for side in sides}
    shape = shape_of(options.size, "vanilla")
    return {
        (size, side): step_on[side](*batch_of(shape, *size))
        for size in sizes
        for side in sides
    }


def point(size: Size, times: Seconds, options: argparse.Namespace) -> dict[str, Any]:
    """Returns the results of one size so far; ratios are taken round by round."""
    batch, length = size
    seconds = {side: some for (where, side), some in times.items() if where == size}
    found: dict[str, Any] = {k: harness.summarize(s) for k, s in seconds.items()}
    for prefix in ("", "torch "):
        if f"{prefix}evolving" in seconds:
            both = (seconds[f"{prefix}{kind}"] for kind in ("evolving", "vanilla"))
            pairs = zip(*both, strict=True)
            found[f"{prefix}ratio"] = statistics.median(e / v for e, v in pairs)
    work = {
        kind: flops(shape_of(options.size, kind), [length] * batch, training=True)
        for kind in KINDS
    }
    found["flops"] = {kind: one["total"] for kind, one in work.items()}
    return found | {"batch": batch, "length": length}


def show(one: dict[str, Any]) -> None:
    """Prints one point."""
    sides = [side for side in SIDES if side in one]
    times = ", ".join(f"{side} {harness.shown(one[side])}" for side in sides)
    print(f"{one['batch']}x{one['length']}: {times}, ratio {one['ratio']:.2f}")


def odd_cost(axis: str, points: list[dict[str, Any]]) -> float | None:
    """Returns the cost of the most expensive odd size; above 1, a neighbour is cheaper.

    An odd size is compared by seconds with the next larger size, to which one could
    pad, and by seconds per FLOP with the next smaller one.
    """
    worst = None
    for one, other in itertools.permutations(points, 2):
        if one[axis] % 2 == 0 or abs(one[axis] - other[axis]) != 1:
            continue
        for kind in KINDS:
            cost = one[kind]["median_s"] / other[kind]["median_s"]
            if other[axis] < one[axis]:
                cost *= other["flops"][kind] / one["flops"][kind]
            worst = max(worst or 0.0, cost)
    return worst


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    common = ("size", "dtype", "threads", "rounds", "dry")
    parser = spelled.parser(__doc__, *common)
    lengths = [32, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512]
    batches = [1, 2, 3, 4, 7, 8, 9, 16, 17, 31, 32, 63, 64]
    parser.add_argument("--lengths", nargs="+", type=int, default=lengths)
    parser.add_argument("--batches", nargs="+", type=int, default=batches)
    parser.add_argument("--batch", type=int, default=2, help="while lengths grow")
    parser.add_argument("--length", type=int, default=32, help="while batches grow")
    parser.add_argument("--torch", action="store_true", help="time eager PyTorch too")
    options = parser.parse_args(arguments)
    machine = harness.measured_machine(options.threads, options.dtype)
    print(harness.machine_line(machine))
    cases: dict[str, list[Size]] = {
        "length": [(options.batch, length) for length in options.lengths],
        "batch": [(batch, options.length) for batch in options.batches],
    }
    sizes = list(dict.fromkeys(itertools.chain(*cases.values())))
    sides = list(SIDES if options.torch else KINDS)
    settings = spelled.settings(options)
    name = f"growth-{options.size}-{options.dtype}"
    results: dict[str, list[dict[str, Any]]] = {}
    steps = steps_of(sizes, sides, options)
    for count, times in enumerate(harness.interleaved(steps, options.rounds), 1):
        found = {size: point(size, times, options) for size in sizes}
        results = {axis: [found[size] for size in some] for axis, some in cases.items()}
        print(f"round {count} of {options.rounds}", flush=True)
        if not options.dry:  # keeps the results of an interrupted run
            harness.write(name, machine, results, settings=settings)
    for axis, points in results.items():
        for one in points:
            show(one)
        cost = odd_cost(axis, points)
        if cost is not None:
            print(f"odd sizes of {axis} cost at most {cost:.2f} of those next to them")


if __name__ == "__main__":
    main()
