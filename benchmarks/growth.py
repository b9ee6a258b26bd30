"""How the training step grows with length and batch, evolving against vanilla, ours.

python -m benchmarks.growth [--size base]      # measures, writes JSON
python -m benchmarks.growth --plot             # draws docs/growth.png from the JSON
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

from benchmarks import harness
from benchmarks import options as spelled
from benchmarks.models import KINDS, batch_of, flops, our_model, our_step, shape_of

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "growth.png"


def point(batch: int, length: int, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of a step of both kinds, interleaved, and their ratio round by round."""
    steps, work = {}, {}
    for kind in KINDS:
        shape = shape_of(options.size, kind)
        ids, labels = batch_of(shape, batch, length)
        steps[kind] = our_step(our_model(shape, options.dtype), ids, labels)
        work[kind] = flops(shape, [length] * batch, training=True)["total"]
    times = harness.interleave(steps, options.rounds, warmup=1)
    found: dict[str, Any] = {k: harness.summarize(s) for k, s in times.items()}
    pairs = zip(times["evolving"], times["vanilla"], strict=True)
    found["ratio"] = statistics.median(e / v for e, v in pairs)
    return found | {"batch": batch, "length": length, "flops": work}


def plot(record: dict[str, Any], path: Path) -> None:
    """Step times and their ratio, over length and over batch, as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(9, 6), sharex="col")
    for column, (axis, series) in enumerate(record["results"].items()):
        x = [one[axis] for one in series]
        other = "batch" if axis == "length" else "length"
        top, below = axes[0][column], axes[1][column]
        for kind, color in (("vanilla", "#4c72b0"), ("evolving", "#dd8452")):
            y = [one[kind]["median_s"] * 1e3 for one in series]
            top.plot(x, y, "o-", color=color, label=kind)
        top.set(xscale="log", yscale="log", title=f"{other} {series[0][other]}")
        top.set_ylabel("training step, ms")
        top.legend()
        below.plot(x, [one["ratio"] for one in series], "o-", color="#55a868")
        below.axhline(1, color="#888888", linewidth=0.8)
        below.set_xticks(x, [str(v) for v in x])
        below.minorticks_off()
        below.set(xlabel=axis, ylabel="evolving over vanilla", ylim=(0.9, None))
    settings, machine = record["settings"], record["machine"]
    figure.suptitle(
        f"BERT-{settings['size']}, {settings['dtype']}, {machine['cpu']}, "
        f"{machine['threads']} threads, {record['date']}"
    )
    figure.tight_layout()
    figure.savefig(path, dpi=100, metadata={"Software": None})
    pyplot.close(figure)


def newest(size: str, dtype: str) -> dict[str, Any]:
    """The latest stored record of this benchmark."""
    from benchmarks.report import newest as latest

    name = f"growth-{size}-{dtype}"
    found = latest(harness.RESULTS).get(name)
    if found is None:
        raise SystemExit(f"no {name} in {harness.RESULTS}: measure first")
    return found


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    common = ("size", "dtype", "threads", "rounds", "dry")
    parser = spelled.parser(__doc__, *common)
    lengths, sizes = [32, 64, 128, 256, 512], [1, 2, 4, 8, 16, 32, 64]
    parser.add_argument("--lengths", nargs="+", type=int, default=lengths)
    parser.add_argument("--batches", nargs="+", type=int, default=sizes)
    parser.add_argument("--batch", type=int, default=2, help="while lengths grow")
    parser.add_argument("--length", type=int, default=32, help="while batches grow")
    parser.add_argument("--plot", action="store_true", help="draw, measure nothing")
    parser.add_argument("--picture", type=Path, default=PICTURE)
    options = parser.parse_args(arguments)
    if options.plot:
        plot(newest(options.size, options.dtype), options.picture)
        print(options.picture)
        return
    machine = harness.measured_machine(options.threads, options.dtype)
    print(harness.machine_line(machine))
    cases = {
        "length": [(options.batch, length) for length in options.lengths],
        "batch": [(batch, options.length) for batch in options.batches],
    }
    results: dict[str, list[dict[str, Any]]] = {}
    for axis, points in cases.items():
        for batch, length in points:
            one = point(batch, length, options)
            results.setdefault(axis, []).append(one)
            both = (one[kind]["median_s"] * 1e3 for kind in KINDS)
            print(
                "{}x{}: vanilla {:.1f} ms, evolving {:.1f} ms".format(
                    batch, length, *both
                )
                + f", ratio {one['ratio']:.2f}",
                flush=True,
            )
    if not options.dry:
        settings = spelled.settings(options, "plot", "picture")
        name = f"growth-{options.size}-{options.dtype}"
        print(harness.write(name, machine, results, settings=settings))


if __name__ == "__main__":
    main()
