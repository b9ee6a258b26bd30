"""Draws the attention of one token to a picture's patches, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evolving_attention.errors import InputError, ShapeError
from evolving_attention.plots.figures import GREY, INK, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PANEL = 1.5  # inches
_TITLE = 0.35


def picture_attention(
    picture: ArrayLike,
    maps: Sequence[ArrayLike],
    *,
    grid: tuple[int, int],
    row: int = 0,
    head: int | None = None,
    title: str | None = None,
) -> Figure:
    """Draw the picture, and next to it each layer's attention, in one panel each.

    A panel has a square for each patch; the more the row's token attends to it, the
    darker it is. White is 0 and the darkest colour is the panel's greatest weight,
    which is written under it as a share of the row. Tokens before the patches are not
    drawn.

    Args:
        picture: [height, width] or [height, width, channels], with one or three
            channels. Colours are integers from 0 to 255 or floats from 0 to 1; other
            floats are drawn on the scale of their least to their greatest value, or
            of 0 to 255 if none is outside of that.
        maps: for each layer [heads, tokens, tokens], from one picture's
            ``output_attentions``.
        grid: the picture's patches: (rows, columns).
        row: the token whose attention is drawn; 0 is the class token, if there is one.
        head: the head to draw; None: the mean of the heads.
        title: title above the panels.

    Raises:
        InputError: the row or the head does not exist.
        ShapeError: the picture or a map has another shape.
        MissingExtraError: matplotlib is not installed.

    Example::

        maps = [one[0] for one in model(pixels, output_attentions=True).attentions]
        ea.plots.picture_attention(picture, maps, grid=model.config.grid)
    """
    shown = np.asarray(picture)
    if shown.ndim not in (2, 3) or shown.shape[2:] not in ((), (1,), (3,)):
        raise ShapeError(
            f"[picture_attention] picture: shape {shown.shape}, expected [height, "
            "width] or [height, width, channels] of 1 or 3 channels"
        )
    panels = [_seen(one, grid, row, head, i) for i, one in enumerate(maps)]
    count = len(panels) + 1
    figure = new_figure(_PANEL * count, _PANEL + _TITLE)
    height = (_PANEL - 0.1) / (_PANEL + _TITLE)
    for i in range(count):
        place = (i / count + 0.01, 0.06, 1 / count - 0.02, height - 0.12)
        axes = figure.add_axes(place)
        axes.set_xticks([])
        axes.set_yticks([])
        told = "picture"
        if i == 0:
            axes.imshow(_drawable(shown), cmap="gray")
        else:
            seen = panels[i - 1]
            most = float(seen.max())
            axes.imshow(seen, cmap="Blues", vmin=0.0, vmax=most or 1.0)
            axes.set_xlabel(f"at most {most:.0%}", fontsize=7, color=GREY, labelpad=2)
            told = f"layer {i}"
        axes.set_title(told, fontsize=9, color=GREY, pad=2)
    if title:
        figure.text(0.01, 0.99, title, ha="left", va="top", color=INK, fontsize=11)
    return figure


def _drawable(picture: NDArray[Any]) -> NDArray[Any]:
    """Returns grey pixels as [height, width], colours of floats on 0 to 1."""
    if picture.ndim == 2 or picture.shape[2] == 1:
        return picture.reshape(picture.shape[:2])
    if picture.dtype.kind != "f" or not picture.size:
        return picture
    least, most = float(np.nanmin(picture)), float(np.nanmax(picture))
    if least >= 0.0 and most <= 255.0:
        return picture / 255.0 if most > 1.0 else picture
    return (picture - least) / (most - least or 1.0)


def _seen(
    given: ArrayLike, grid: tuple[int, int], row: int, head: int | None, layer: int
) -> Any:
    """Returns the row's attention to the patches, [rows, columns]."""
    array = np.asarray(given, dtype=np.float64)
    patches = grid[0] * grid[1]
    good = array.ndim == 3 and array.shape[1] == array.shape[2] >= patches
    if not good:
        raise ShapeError(
            f"[picture_attention] layer {layer}: shape {array.shape}, expected (heads, "
            f"tokens, tokens), a token for each of the {grid[0]} x {grid[1]} patches"
        )
    for name, value, most in (
        ("row", row, array.shape[1]),
        ("head", head or 0, len(array)),
    ):
        if not 0 <= value < most:
            raise InputError(
                f"[picture_attention] layer {layer}: {name}={value}, expected 0 to "
                f"{most - 1}"
            )
    weights = array.mean(axis=0) if head is None else array[head]
    return weights[row, array.shape[1] - patches :].reshape(grid)
