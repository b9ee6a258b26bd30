"""Draws the figures of docs/figures from the records in benchmarks/results.

Equal records and an equal matplotlib give equal bytes: no date, and a fixed salt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.rows import Row
from evolving_attention.plots.figures import COLOURS, GREY, INK, new_figure, save

Record = dict[str, Any]
BETTER, WORSE = COLOURS[2], COLOURS[1]
TICKS = (0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 8, 12, 20)
# Contenders that growth.py times, in legend order, with their style.
LINES = {
    "vanilla": ("ours, vanilla", COLOURS[0], "o-"),
    "evolving": ("ours, evolving", COLOURS[1], "o-"),
    "torch vanilla": ("PyTorch, vanilla", COLOURS[0], "s:"),
    "torch evolving": ("PyTorch, evolving", COLOURS[1], "s:"),
}
STYLES = ("-", "--", "-", ":")  # one per arm, as curves may overlap


def ratios(rows: Sequence[Row], path: Path) -> Path:
    """Draws how much better ours is than each peer, as bars on a logarithmic axis."""
    some = sorted((r for r in rows if r.ratio and r.peer), key=lambda r: r.ratio or 0.0)
    figure = new_figure(9.5, 1.1 + 0.27 * len(some))
    axes = figure.add_subplot()
    values = [row.ratio or 0.0 for row in some]
    places = range(len(some))
    colours = [BETTER if value >= 1 else WORSE for value in values]
    axes.barh(places, [v - 1 for v in values], left=1, color=colours, height=0.7)
    for place, value in zip(places, values, strict=True):
        axes.annotate(
            f"{value:.2f}×",
            (max(value, 1.0), place),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=INK,
        )
    axes.axvline(1, color=GREY, linewidth=0.8)
    low, high = min([*values, 1.0]), max([*values, 1.0])
    axes.set_xscale("log")
    axes.set_xlim(0.95 * low, 1.3 * high)
    ticks = [t for t in TICKS if 0.95 * low <= t <= 1.3 * high]
    axes.set_xticks(ticks, [f"{t:g}×" for t in ticks], fontsize=8)
    axes.minorticks_off()
    axes.set_yticks(list(places), [label(row) for row in some], fontsize=8)
    axes.set_ylim(-0.6, len(some) - 0.4)
    axes.set_xlabel("ours is better by (1: as good as the other side)", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    return save(figure, path)


def label(row: Row) -> str:
    """Returns the label of a bar: what is measured, and the peer."""
    what = re.sub(r" \([^)]*\)", "", row.what.split("; ")[0])
    return f"{what} | {row.peer}"


def lighten(axes: Iterable[Any]) -> None:
    """Applies small ticks and a pale grid; removes the top and right frame."""
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.tick_params(labelsize=8)
        one.grid(color="#e6e6ea", linewidth=0.6)


def growth(record: Record, path: Path) -> Path:
    """Draws step times and the ratio evolving / vanilla against length and batch."""
    from matplotlib.ticker import LogLocator, NullFormatter

    measured = {axis: some for axis, some in record["results"].items() if some}
    figure = new_figure(1.3 + 4.1 * len(measured), 6.2)
    axes = figure.subplots(2, len(measured), sharex="col", squeeze=False)
    for column, (axis, series) in enumerate(measured.items()):
        other = "batch" if axis == "length" else "length"
        top, below = axes[0][column], axes[1][column]
        for key, (text, colour, style) in LINES.items():
            points = [(one[axis], one[key]["median_s"]) for one in series if key in one]
            if points:
                x, seconds = zip(*points, strict=True)
                ms = [1e3 * s for s in seconds]
                top.plot(x, ms, style, color=colour, label=text, markersize=4)
        top.set(xscale="log", yscale="log")
        top.set_title(f"{other} {series[0][other]}", fontsize=10)
        top.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        top.yaxis.set_major_formatter("{x:g}")
        top.yaxis.set_minor_formatter(NullFormatter())
        top.set_ylabel("training step, ms")
        top.legend(frameon=False, fontsize=8)
        x = [one[axis] for one in series]
        ratio = [one["ratio"] for one in series]
        below.plot(x, ratio, "o-", color=COLOURS[2], markersize=4, label="ours")
        theirs = [(o[axis], o["torch ratio"]) for o in series if "torch ratio" in o]
        if theirs:
            where, values = zip(*theirs, strict=True)
            below.plot(where, values, "s:", color=GREY, markersize=4, label="PyTorch")
            below.legend(frameon=False, fontsize=8)
            ratio += values
        floor, top_end = min(0.95, 0.98 * min(ratio)), max(1.2, 1.02 * max(ratio))
        below.axhline(1, color=GREY, linewidth=0.8)
        round_sizes = [v for v in x if v.bit_count() == 1]  # others lie near them
        below.set_xticks(round_sizes, [str(v) for v in round_sizes], fontsize=8)
        below.minorticks_off()
        below.set(xlabel=axis, ylabel="evolving over vanilla", ylim=(floor, top_end))
    lighten(axes.flat)
    settings, machine = record["settings"], record["machine"]
    figure.suptitle(
        f"BERT-{settings['size']}, {settings['dtype']}, {machine['cpu']}, "
        f"{machine['threads']} threads, {record['date']}",
        fontsize=10,
    )
    figure.tight_layout()
    return save(figure, path)


def held_out_losses(runs: Sequence[Record], path: Path) -> Path:
    """Draws the curves of every run: a row for each depth, a column for each rate.

    A curve ends where its loss became infinite or NaN. The grey line is the loss of the
    token frequencies, the same for all runs.
    """
    depths = sorted({one["layers"] for one in runs})
    rates = sorted({one["rate"] for one in runs})
    arms = list(dict.fromkeys(one["arm"] for one in runs))
    figure = new_figure(1.0 + 3.1 * len(rates), 0.8 + 2.4 * len(depths))
    axes = figure.subplots(
        len(depths), len(rates), sharex=True, sharey=True, squeeze=False
    )
    for one in runs:
        place = axes[depths.index(one["layers"])][rates.index(one["rate"])]
        arm = arms.index(one["arm"])
        place.plot(
            [point["update"] for point in one["curve"]],
            [point["loss"] for point in one["curve"]],
            STYLES[arm],
            color=COLOURS[arm],
            label=one["arm"] if one["seed"] == 1 else None,
            linewidth=1.1,
        )
    for row, depth in zip(axes, depths, strict=True):
        row[0].set_ylabel(f"{depth} layers: held-out loss", fontsize=9)
    for place, rate in zip(axes[0], rates, strict=True):
        place.set_title(f"rate {rate:g}", fontsize=10)
    for place in axes[-1]:
        place.set_xlabel("updates", fontsize=9)
    for place in axes.flat:
        place.axhline(runs[0]["frequencies"], color=GREY, linewidth=0.8)
    lighten(axes.flat)
    axes[0][0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    return save(figure, path)
