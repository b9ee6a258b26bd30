"""Shared parts of all figures: a canvas without global state, colours, saving."""

from __future__ import annotations

import colorsys
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from evolving_attention.errors import InputError, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, GREY = "#1b1b1f", "#6b6b76"
COLOURS = ("#2b5c8a", "#c8553d", "#3d8361", "#8a5a9e", "#b58a1b", "#4f4f57")
"""Line colours that stay apart in grey and for colour-blind readers."""
_TONES = (0.0, 0.3, -0.45, 0.5)  # CIELAB distances: 25, 17, 15, 12 or more


def colours(count: int) -> list[str]:
    """Returns different colours: COLOURS, their tones, and then further hues.

    The first 24 are also far apart; of more, some look alike.
    """
    found = [_mixed(colour, tone) for tone in _TONES for colour in COLOURS][:count]
    for i in range(count - len(found)):
        hue = (i * (5**0.5 - 1) / 2) % 1
        red, green, blue = colorsys.hsv_to_rgb(hue, 0.9 - 0.2 * (i % 2), 0.72)
        found.append("#" + bytes(round(255 * c) for c in (red, green, blue)).hex())
    return found


def _mixed(colour: str, tone: float) -> str:
    """Returns a colour mixed with a share of white, or of black below 0."""
    to = 255 if tone > 0 else 0
    parts = bytes.fromhex(colour[1:])
    return "#" + bytes(round(p + abs(tone) * (to - p)) for p in parts).hex()


def new_figure(width: float, height: float) -> Figure:
    """Returns a white figure of this size in inches, outside pyplot's global list.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    why = "to draw figures"
    module = require("matplotlib.figure", extra="plots", why=why)
    canvas = require("matplotlib.backends.backend_agg", extra="plots", why=why)
    figure = module.Figure(figsize=(width, height), facecolor="white")
    canvas.FigureCanvasAgg(figure)
    return figure


def draw_frame(axes: Axes, *sides: str) -> None:
    """Draws the lines around axes thin and grey: all of them, or only these sides."""
    for side, spine in axes.spines.items():
        spine.set_visible(not sides or side in sides)
        spine.set(color=GREY, linewidth=0.6)


def heading(figure: Figure, title: str, note: str) -> None:
    """Writes the title, cut to the figure's width, and a smaller note below it."""
    width, height = figure.get_size_inches()
    room = int((width - 0.3) * 72 / (14 * 0.66))  # characters of 14 pt bold that fit
    left = 0.16 / width
    figure.text(
        left,
        1 - 0.2 / height,
        title if len(title) <= room else title[: room - 1] + "…",
        fontsize=14,
        fontweight="bold",
        color=INK,
        va="top",
        parse_math=False,
    )
    figure.text(left, 1 - 0.52 / height, note, fontsize=9, color=GREY, va="top")


def save(figure: Figure, path: str | os.PathLike[str], dpi: int = 150) -> Path:
    """Write a figure in the suffix's format (png, svg, pdf); create missing folders.

    The file is written atomically and contains no date, so the same figure gives the
    same bytes.

    Raises:
        InputError: matplotlib cannot write the suffix's format.
    """
    path = Path(path)
    kind = path.suffix.lower().lstrip(".")
    known = figure.canvas.get_supported_filetypes()
    if kind not in known:
        raise InputError(
            f"[plots.save] {path.name!r} ends in {path.suffix!r}, expected one of "
            f"{', '.join(sorted(known))}: rename the file, for example to "
            f"{path.stem + '.png'!r}"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    undated = {"png": {"Software": None}, "svg": {"Date": None}}
    undated["pdf"] = {"CreationDate": None}
    from matplotlib import rc_context

    try:
        with rc_context({"svg.hashsalt": "evolving-attention"}):
            figure.savefig(partial, format=kind, dpi=dpi, metadata=undated.get(kind))
        os.replace(partial, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()
    return path
