"""The price of equal bits for any number of threads, in the training step.

Compares the matrix product whose jobs are partitioned by shape only with oneDNN's own
partition of the work, the implementation ``matmul:onednn_parallel``.

    python -m benchmarks.same_bits [--size base] [--batch 8] [--length 128]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from benchmarks import harness
from benchmarks import options as spelled
from benchmarks.models import batch_of, our_model, our_step, shape_of

OTHER = ("matmul", "onednn_parallel")


def measure(kind: str, options: argparse.Namespace) -> dict[str, Any]:
    """Times steps of one model and batch with either product in turn."""
    from evolving_attention import _core

    shape = shape_of(options.size, kind)
    ids, labels = batch_of(shape, options.batch, options.length)
    step = our_step(our_model(shape, options.dtype), ids, labels)

    def forced(name: str) -> Callable[[], None]:
        def run() -> None:
            _core.force_kernel(OTHER[0], name)
            try:
                step()
            finally:
                _core.force_kernel(OTHER[0], "")

        return run

    runs = {"same bits": forced(""), OTHER[1]: forced(OTHER[1])}
    times = harness.interleave(runs, options.rounds, warmup=1)
    found: dict[str, Any] = {k: harness.summarize(s) for k, s in times.items()}
    found["price"] = found["same bits"]["median_s"] / found[OTHER[1]]["median_s"] - 1
    return found


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    common = ("size", "kinds", "batch", "length", "dtype", "threads", "rounds", "dry")
    options = spelled.parser(__doc__, *common).parse_args(arguments)
    machine = harness.measured_machine(options.threads, options.dtype)
    print(harness.machine_line(machine))
    results = {}
    for kind in options.kinds:
        one = results[kind] = measure(kind, options)
        both = (harness.shown(one[n]) for n in ("same bits", OTHER[1]))
        print("{:9s} {}, {} free".format(kind, *both), end="")
        print(f": the same bits cost {one['price']:+.1%}")
    if not options.dry:
        name = f"samebits-{options.size}-{options.batch}x{options.length}"
        name += f"-{options.dtype}"
        print(harness.write(name, machine, results, settings=spelled.settings(options)))


if __name__ == "__main__":
    main()
