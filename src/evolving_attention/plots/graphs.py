"""Draws the attention of one node of a graph over its edges, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from evolving_attention.errors import InputError, ShapeError
from evolving_attention.plots.figures import COLOURS, GREY, INK, colours, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL = 2.4  # inches
_TITLE = 0.5
_WIDEST = 7.0  # points, width of a line of weight 1


def node_attention(
    edge_index: ArrayLike,
    maps: Sequence[ArrayLike],
    node: int,
    *,
    classes: ArrayLike | None = None,
    head: int | None = None,
    title: str | None = None,
) -> Figure:
    """Draw a node's attention: a panel for each layer, with the node in its centre.

    The source nodes of its edges are arranged around it. The width of a line is the
    edge's weight; parallel edges of one pair are added. The weight of the edge from the
    node to itself is written under its number.

    Args:
        edge_index: [2, edges], sources before targets, as ``attention_maps`` of
            ``ea.GraphNodeClassifier`` returns it.
        maps: one [edges, heads] array per layer.
        node: number of the node.
        classes: [nodes], for the colours; None: one colour.
        head: the head to draw; None: the mean of the heads.
        title: title above the panels.

    Raises:
        InputError: no edge enters the node, or the head does not exist.
        ShapeError: a map has another number of edges.
        MissingExtraError: matplotlib is not installed.

    Example::

        edges, maps = classifier.attention_maps(X)
        ea.plots.node_attention(edges, maps, node=3, classes=y)
    """
    sources, targets = np.asarray(edge_index)
    entering = np.flatnonzero(targets == node)
    if len(entering) == 0:
        raise InputError(
            f"[node_attention] no edge enters node {node}, expected one that sees "
            "something; choose another node"
        )
    seen = np.unique(sources[entering])
    around = seen[seen != node]
    angles = 2 * np.pi * np.arange(len(around)) / max(1, len(around)) + np.pi / 2
    places = {node: (0.0, 0.0)} | {
        int(one): (float(np.cos(a)), float(np.sin(a)))
        for one, a in zip(around, angles, strict=True)
    }
    shown = _colours(classes, [int(one) for one in seen] + [node])
    figure = new_figure(_PANEL * len(maps), _PANEL + _TITLE)
    height = _PANEL / (_PANEL + _TITLE)
    for i, given in enumerate(maps):
        weights = _weights(given, len(targets), head, i)[entering]
        axes = figure.add_axes((i / len(maps), 0.0, 1 / len(maps), height))
        _draw(axes, node, places, shown, sources[entering], weights)
        axes.set_title(f"layer {i + 1}", fontsize=9, color=GREY, pad=2)
    if title:
        figure.text(0.01, 0.99, title, ha="left", va="top", color=INK, fontsize=11)
    return figure


def _weights(given: ArrayLike, edges: int, head: int | None, layer: int) -> Any:
    """Returns one weight per edge."""
    array = np.asarray(given, dtype=np.float64)
    if array.ndim != 2 or len(array) != edges:
        raise ShapeError(
            f"[node_attention] layer {layer}: shape {array.shape}, expected "
            f"({edges}, heads): a row for each edge"
        )
    if head is None:
        return array.mean(axis=1)
    if not 0 <= head < array.shape[1]:
        raise InputError(
            f"[node_attention] layer {layer}: head={head}, expected 0 to "
            f"{array.shape[1] - 1}; leave head out for their mean"
        )
    return array[:, head]


def _colours(classes: ArrayLike | None, nodes: list[int]) -> dict[int, str]:
    if classes is None:
        return dict.fromkeys(nodes, COLOURS[0])
    names, numbers = np.unique(np.asarray(classes), return_inverse=True)
    own = colours(len(names))
    return {n: own[numbers[n]] for n in nodes}


def _draw(
    axes: Axes,
    node: int,
    places: dict[int, tuple[float, float]],
    shown: dict[int, str],
    sources: Any,
    weights: Any,
) -> None:
    axes.set_xlim(-1.35, 1.35)
    axes.set_ylim(-1.35, 1.35)
    axes.set_aspect("equal")
    axes.axis("off")
    sums = {one: float(weights[sources == one].sum()) for one in places}
    for one, (x, y) in places.items():
        if one != node:
            width = max(0.3, _WIDEST * sums[one])
            axes.plot([0.0, x], [0.0, y], color=GREY, linewidth=width, zorder=1)
        axes.scatter([x], [y], s=150, color=shown[one], zorder=2)
        axes.text(
            x,
            y,
            str(one),
            ha="center",
            va="center",
            fontsize=6,
            color="white",
            zorder=3,
        )
    if sums[node]:
        axes.text(
            0.0,
            -0.24,
            f"{sums[node]:.2f}",
            ha="center",
            va="center",
            fontsize=7,
            color=INK,
            zorder=3,
        )
