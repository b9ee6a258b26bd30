"""Draws a statistic of every attention head over tokens, one panel per layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evolving_attention.errors import ConfigError, InputError, ShapeError
from evolving_attention.plots.figures import (
    COLOURS,
    GREY,
    INK,
    draw_frame,
    heading,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDEST, _NARROWEST = 9.6, 6.4  # inches, of the figure
_HEAD, _PANEL, _GAPS = 0.22, 1.15, (0.15, 0.4)  # inches, the gaps across and down
_LEFT, _TOP, _RIGHT, _BOTTOM = 0.62, 1.25, 0.1, 0.5  # inches around the panels
_COLUMNS = 3
_BANDS = (COLOURS[0], COLOURS[4], COLOURS[1])  # blue, yellow, red: low to high
_QUANTILES = np.linspace(0.0, 1.0, 401)


def entropy_by_head(
    entropies: ArrayLike,
    *,
    bands: tuple[float, float] = (1.5, 4.5),
    highest: float | None = None,
    title: str | None = None,
) -> Figure:
    """Draw the distribution of the entropy of attention, in every head of every layer.

    The heads of a layer are sorted by their medians. A low entropy is sparse attention.

    Args:
        entropies: [layers, heads, tokens], as ``ea.metrics.attention_entropy`` returns.
        bands: medians below the first are blue, above the second red, between yellow.
            The paper's are for 512 tokens, whose largest entropy is 6.24.
        highest: upper end of the axis, to compare figures; None: the largest entropy.
        title: title above the panels; None: a default title.

    Returns:
        A matplotlib figure; :func:`evolving_attention.plots.save` writes it.

    Raises:
        ShapeError: the entropies have other axes, or none of them.
        InputError: an entropy is negative or not finite.
        ConfigError: the bands are not in ascending order.
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> entropies = np.random.default_rng(0).uniform(0, 6, (2, 4, 50))
        >>> figure = entropy_by_head(entropies)

    Source: RealFormer, Figures 4, 6 and 7.
    """
    values = _checked("entropy_by_head", entropies, bands)
    names = [f"layer {i + 1}" for i in range(len(values))]
    top = 1.04 * float(values.max()) if highest is None else highest
    return _figure(
        title or "Entropy of attention, by head",
        ("entropy (nats)", "low: sparse attention"),
        values,
        np.argsort(np.median(values, axis=-1), axis=-1, kind="stable"),
        names,
        bands,
        max(top, 1e-6),
    )


def divergence_by_head(
    divergences: ArrayLike,
    *,
    bands: tuple[float, float] = (0.25, 0.75),
    title: str | None = None,
) -> Figure:
    """Draw how much each head differs from the head of the same number a layer earlier.

    Args:
        divergences: [layers - 1, heads, tokens], as ``ea.metrics.head_divergence``
            returns.
        bands: medians below the first are blue, above the second red, between yellow.
        title: title above the panels; None: a default title.

    Returns:
        A matplotlib figure; :func:`evolving_attention.plots.save` writes it.

    Raises:
        ShapeError, InputError, ConfigError, MissingExtraError: as
            :func:`entropy_by_head`.

    Example:
        >>> divergences = np.random.default_rng(0).uniform(0, 1, (2, 4, 50))
        >>> figure = divergence_by_head(divergences)

    Source: RealFormer, Figures 5 and 8.
    """
    values = _checked("divergence_by_head", divergences, bands)
    layers, heads, _ = values.shape
    return _figure(
        title or "Divergence of adjacent layers, by head",
        ("divergence (bits)", "low: the head attends as one layer earlier"),
        values,
        np.tile(np.arange(heads), (layers, 1)),
        [f"layers {i + 1} and {i + 2}" for i in range(layers)],
        bands,
        1.0,
    )


def _checked(
    name: str, given: ArrayLike, bands: tuple[float, float]
) -> NDArray[np.float64]:
    """Returns the values as float64 [layers, heads, tokens]."""
    values = np.asarray(given, dtype=np.float64)
    if values.ndim != 3 or 0 in values.shape:
        raise ShapeError(
            f"[{name}] the values have shape {values.shape}, expected [layers, heads, "
            "tokens], none of them 0: pass what ea.metrics returns"
        )
    if not (np.isfinite(values) & (values >= 0)).all():
        raise InputError(
            f"[{name}] a value is negative, NaN or infinite, expected 0 or more: pass "
            "what ea.metrics returns"
        )
    if not bands[0] <= bands[1]:
        raise ConfigError(
            f"[{name}] bands={bands}, expected the lower one first: swap them"
        )
    return values


def _figure(
    title: str,
    labels: tuple[str, str],
    values: NDArray[np.float64],
    order: NDArray[np.int64],
    names: list[str],
    bands: tuple[float, float],
    highest: float,
) -> Figure:
    """Draws one panel per layer below the title and the legend.

    Args:
        title: title of the figure.
        labels: what the vertical axis shows, and what a low value means.
        values: [layers, heads, tokens].
        order: [layers, heads], heads from left to right.
        names: the panels' titles.
        bands: borders of the colours.
        highest: upper end of the vertical axis.
    """
    layers, heads, _ = values.shape
    (across, down), panel = _GAPS, _HEAD * (heads + 0.4)
    room = int((_WIDEST - _LEFT - _RIGHT + across) / (panel + across))
    columns = max(1, min(_COLUMNS, layers, room))
    rows = -(-layers // columns)
    width = max(_NARROWEST, _LEFT + columns * (panel + across) - across + _RIGHT)
    height = _TOP + rows * (_PANEL + down) - down + _BOTTOM
    figure = new_figure(width, height)
    panel = (width - _LEFT - _RIGHT + across) / columns - across
    grid = figure.subplots(
        rows,
        columns,
        sharey=True,
        squeeze=False,
        gridspec_kw={
            "left": _LEFT / width,
            "right": 1 - _RIGHT / width,
            "bottom": _BOTTOM / height,
            "top": 1 - _TOP / height,
            "wspace": across / panel,
            "hspace": down / _PANEL,
        },
    )
    medians = np.median(values, axis=-1)
    groups = (medians >= bands[0]).astype(int) + (medians > bands[1])
    for axes in grid.flat[layers:]:
        axes.remove()
    for axes, name, one, numbers, group in zip(
        grid.flat[:layers], names, values, order, groups, strict=True
    ):
        _violins(axes, one[numbers], [_BANDS[g] for g in group[numbers]])
        _decorate(axes, numbers, bands, highest)
        axes.set_title(name, fontsize=9, color=INK, pad=3)
    middle = (_BOTTOM + height - _TOP) / 2 / height
    figure.supylabel(labels[0], fontsize=9, color=GREY, x=0.16 / width, y=middle)
    figure.supxlabel("head", fontsize=9, color=GREY, y=0.1 / height)
    note = f"shape: all tokens, line: middle half, dot: median; {labels[1]}"
    heading(figure, title, note)
    _legend(figure, groups, bands)
    return figure


def _violins(axes: Axes, values: NDArray[np.float64], colours: list[str]) -> None:
    """Draws the distributions [heads, tokens] next to each other.

    Their shape is estimated from quantiles, so its cost does not grow with the tokens.
    """
    quantiles = np.quantile(values, _QUANTILES, axis=-1)
    width = min(0.9, 0.12 * len(values))  # few heads: not as wide as their panel
    drawn: Any = axes.violinplot(quantiles, range(len(values)), widths=width)
    for body, colour in zip(drawn["bodies"], colours, strict=True):
        body.set(facecolor=colour, edgecolor=colour, alpha=0.75, linewidth=0.6)
    for part in ("cmins", "cmaxes", "cbars"):
        drawn[part].remove()
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75), axis=-1)
    places = np.arange(len(values))
    axes.vlines(places, low, high, color=INK, linewidth=1.1)
    axes.plot(
        places, middle, "o", color="white", mec=INK, ms=2.8, mew=0.7, clip_on=False
    )


def _decorate(
    axes: Axes, numbers: NDArray[np.int64], bands: tuple[float, float], highest: float
) -> None:
    """Draws the borders of the bands and the numbers of the heads."""
    axes.set(xlim=(-0.7, len(numbers) - 0.3), ylim=(0.0, highest))
    axes.set_xticks(range(len(numbers)), [str(number) for number in numbers])
    axes.tick_params(labelsize=7, colors=INK, length=0, pad=4)
    axes.hlines(
        bands, *axes.get_xlim(), color=GREY, linewidth=0.6, linestyle=":", zorder=0
    )
    draw_frame(axes, "left", "bottom")


def _legend(
    figure: Figure, groups: NDArray[np.int64], bands: tuple[float, float]
) -> None:
    """Draws a row that tells the colours and how many heads have each."""
    from matplotlib.patches import Patch

    (width, height), (low, high) = figure.get_size_inches(), bands
    ranges = (f"below {low:g}", f"{low:g} to {high:g}", f"above {high:g}")
    counts = np.bincount(groups.ravel(), minlength=3)
    figure.legend(
        handles=[
            Patch(
                color=colour,
                alpha=0.75,
                label=f"median {what}: {count} of {groups.size}",
            )
            for colour, what, count in zip(_BANDS, ranges, counts, strict=True)
        ],
        loc="upper left",
        bbox_to_anchor=(0.13 / width, 1 - 0.72 / height),
        ncols=3,
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        handlelength=1.0,
        columnspacing=1.4,
        borderaxespad=0.0,
        borderpad=0.2,
    )
