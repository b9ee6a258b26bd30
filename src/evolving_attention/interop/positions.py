"""Resizes a table of learned position embeddings to another grid of patches."""

from __future__ import annotations

from typing import Any

import numpy as np

from evolving_attention.errors import ShapeError

Array = np.ndarray[Any, Any]


def resized_positions(
    table: Array, grid: tuple[int, int], target: tuple[int, int]
) -> Array:
    """Resizes the positions of ``grid`` to ``target`` by linear interpolation.

    Corners keep their values: row r of the new table is at r · (rows - 1) / (new rows -
    1) of the old one, as by ``scipy.ndimage.zoom`` of order 1, which ViT's authors use.
    The rows of tokens before the patches are kept.

    Args:
        table: [1, tokens, width].
        grid: (rows, columns) of the table's patches.
        target: (rows, columns) of the result's patches.

    Returns:
        [1, tokens', width], with the table's dtype.

    Raises:
        ShapeError: the table has fewer rows than the grid.
    """
    rows, columns = grid
    in_front = table.shape[1] - rows * columns if table.ndim == 3 else -1
    if in_front < 0 or table.shape[0] != 1:
        raise ShapeError(
            f"positions have shape {table.shape}, expected (1, tokens, width) with "
            f"{rows * columns} tokens or more, those of a grid of {rows} x {columns}"
        )
    patches = table[0, in_front:].astype(np.float64).reshape(rows, columns, -1)
    between = _stretched(_stretched(patches, 0, target[0]), 1, target[1])
    flat = between.reshape(1, target[0] * target[1], -1).astype(table.dtype)
    return np.concatenate([table[:, :in_front], flat], axis=1)


def _stretched(values: Array, axis: int, count: int) -> Array:
    """Linear interpolation at ``count`` points of an axis, including both ends."""
    last = values.shape[axis] - 1
    places = np.arange(count) * (last / (count - 1) if count > 1 else 0.0)
    below = np.minimum(places.astype(np.int64), last)
    share = (places - below).reshape([-1 if a == axis else 1 for a in range(3)])
    low = values.take(below, axis)
    high = values.take(np.minimum(below + 1, last), axis)
    found: Array = low * (1.0 - share) + high * share
    return found
