"""Draws a time series as a strip of lines above the columns of its attention maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evolving_attention.errors import ShapeError
from evolving_attention.plots.figures import COLOURS, GREY, draw_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEIGHT = 0.62  # inches, including the gap below


def series_values(series: ArrayLike | None, steps: int) -> NDArray[np.float64] | None:
    """Returns the series as [steps, channels], or None.

    Raises:
        ShapeError: the series has another shape.
    """
    if series is None:
        return None
    values = np.asarray(series, dtype=np.float64)
    if values.ndim != 2 or values.shape[0] != steps:
        raise ShapeError(
            f"[attention_evolution] series has shape {values.shape}, expected "
            f"({steps}, channels), one row for each of the {steps} tokens; of aeon's "
            "[channels, steps] give series.T"
        )
    return values


def draw_strip(
    figure: Figure,
    box: tuple[float, float, float, float],
    values: NDArray[np.float64],
) -> None:
    """Draws all channels in ``box`` (left, bottom, width, height of the figure)."""
    axes = figure.add_axes(box)
    few = values.shape[1] <= len(COLOURS)
    for channel in range(values.shape[1]):
        axes.plot(
            values[:, channel],
            color=COLOURS[channel] if few else GREY,
            linewidth=1.1 if few else 0.7,
        )
    axes.set_xlim(-0.5, len(values) - 0.5)
    axes.set_xticks([])
    axes.set_yticks([])
    draw_frame(axes)
