"""BERT classification inference: ours and the engines people run on CPUs.

PyTorch eager, torch.compile (frozen weights), ONNX Runtime, OpenVINO and CTranslate2
(vanilla only), each in its own process, with the same threads, the same weights and the
same input without padding. All sides and both kinds of attention take turns. Logits are
compared before the timing; a side that is not installed, is not able to run, or differs
is listed with the reason.

    python -m benchmarks.inference --dtype float32 [--shapes 8x128 2x512]
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks import options as spelled
from benchmarks.models import batch_of, flops, shape_of
from benchmarks.race import TOLERANCE, race_kinds, ratios


def size_of(text: str) -> tuple[int, int]:
    """Parses "8x128" as (8, 128)."""
    batch, _, length = text.partition("x")
    return int(batch), int(length)


def measure(size: tuple[int, int], options: argparse.Namespace) -> dict[str, dict]:
    """Times all sides and kinds on one batch; returns results by kind."""
    shapes = {kind: shape_of(options.size, kind) for kind in options.kinds}
    ids, _ = batch_of(next(iter(shapes.values())), *size)
    lengths = np.full(len(ids), ids.shape[1])
    found = race_kinds(
        shapes,
        options.dtype,
        {"batch": [(ids, lengths)]},
        threads=options.threads,
        rounds=options.rounds,
        sides=options.sides,
    )
    return {
        kind: found[kind]["batch"] | {"flops": flops(shape, lengths.tolist())}
        for kind, shape in shapes.items()
    }


def show(what: str, result: dict[str, Any], limit_s: float, batch: int) -> None:
    """Prints the sides of one measurement."""
    times = ratios(result)
    for side, one in result.items():
        if "median_s" in one:
            print(
                f"{what} {side:14s} {harness.shown(one)}  "
                f"{batch / one['median_s']:7.2f} sequences/s  "
                f"{limit_s / one['median_s']:.0%} of GEMM"
                + (f"  ours is {times[side]:.2f} x" if side in times else "")
            )


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    common = ("size", "kinds", "dtype", "threads", "rounds", "sides", "dry")
    parser = spelled.parser(__doc__, *common)
    parser.add_argument(
        "--shapes", nargs="+", type=size_of, default=[(8, 128), (2, 512)]
    )
    options = parser.parse_args(arguments)
    machine = harness.measured_machine(options.threads, options.dtype)
    print(harness.machine_line(machine))
    print(f"logits agree within {TOLERANCE[options.dtype]:.0e} of the largest")
    for size in options.shapes:
        batch, length = size
        results = measure(size, options)
        for kind, result in results.items():
            work = result.pop("flops")
            harness.measure_gemm_again(machine, options.dtype)
            limit = harness.gemm_limit(work["total"], machine, options.dtype)
            show(f"{kind:9s} {batch}x{length}", result, limit, batch)
            result["work"] = {"flops": work, "gemm_limit_s": limit}
        if not options.dry:
            settings = spelled.settings(options, "shapes")
            settings |= {"batch": batch, "length": length}
            settings |= {"interleaved": len(results) > 1}
            name = f"inference-{options.size}-{batch}x{length}-{options.dtype}"
            name += harness.only(options.kinds)
            print(harness.write(name, machine, results, settings=settings))


if __name__ == "__main__":
    main()
