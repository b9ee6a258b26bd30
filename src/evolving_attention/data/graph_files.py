"""Graphs in .npz files: features, classes, edges and the split into parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention.data.graph import Graph
from evolving_attention.data.npz import read_npz
from evolving_attention.errors import DataError, InputError, require

Array = np.ndarray[Any, Any]
_PARTS = {  # names of a part in files
    "train": ("train",),
    "validation": ("val", "valid", "validation"),
    "test": ("test",),
}
_SPARSE = ("x_data", "x_indices", "x_indptr", "x_shape")
_FORMS = ("idx", "mask")  # of a part
_NAMES = (
    *("x", *_SPARSE, "y", "edge_index", "edges"),
    *(f"{name}_{form}" for part in _PARTS.values() for name in part for form in _FORMS),
)


@dataclass(frozen=True)
class GraphData:
    """One graph and the data of its nodes.

    Attributes:
        x: features, [nodes, features]; an array, or a sparse SciPy matrix.
        graph: the edges.
        y: [nodes] classes, or None.
        parts: ``train``, ``validation`` and ``test``, those that the file has: numbers
            of nodes, or a boolean for each node.
    """

    x: Any
    graph: Graph
    y: Array | None = None
    parts: dict[str, Array] = field(default_factory=dict)


def load_npz(
    path: str | Path, *, undirected: bool = False, normalize: bool = True
) -> GraphData:
    """Read a graph from a .npz file, without pickles.

    Args:
        path: a file with the arrays ``edge_index`` [2, edges] or ``edges`` [edges, 2],
            sources before targets; ``x`` [nodes, features], or a sparse matrix in
            compressed-row format, ``x_data``, ``x_indices``, ``x_indptr`` and
            ``x_shape``; and optionally ``y`` [nodes] and for train, val (or valid or
            validation) and test ``…_idx`` (numbers of nodes) or ``…_mask`` (booleans,
            or 0 and 1), not both.
        undirected: add the reverse of every edge that lacks it, after the given edges.
            Parallel edges are kept: each needs a reverse of its own.
        normalize: scale each row of features so that its absolute values sum to 1.

    Raises:
        DataError: the file cannot be read, an array is missing or wrong, or its arrays
            do not fit into the memory.
    """
    file = Path(path)
    arrays, held = read_npz(file, _NAMES, "a .npz file of arrays")
    try:
        x = _features(arrays, held)
        if x.dtype.kind not in "biuf":
            raise InputError(f"x: dtype {x.dtype}, expected real numbers")
        _check_finite(x)
        if normalize:
            x = _normalized(x)
        sources, targets = _edges(arrays, held, undirected)
        graph = Graph(sources, targets, x.shape[0])
    except InputError as error:
        raise DataError(str(error), str(file)) from error
    parts = {}
    for own, names in _PARTS.items():
        forms = [f"{name}_{form}" for name in names for form in _FORMS]
        found_forms = [form for form in forms if form in arrays]
        if len(found_forms) > 1:
            raise DataError(
                f"{' and '.join(found_forms)} give the {own} nodes, expected one of "
                "them; leave the other out",
                str(file),
            )
        for form in found_forms:
            parts[own] = arrays[form]
            if form.endswith("_mask"):
                parts[own] = _mask(parts[own], x.shape[0], form, file)
    return GraphData(x, graph, arrays.get("y"), parts)


def _mask(given: Array, count: int, name: str, file: Path) -> Array:
    """Returns a mask as booleans; old files store 0 and 1."""
    whole = given.dtype.kind in "biu" and bool(np.isin(given, (0, 1)).all())
    if given.shape != (count,) or not whole:
        raise DataError(
            f"{name}: {given.dtype} of shape {given.shape}, expected a boolean, or 0 "
            f"or 1, for each of the {count} nodes; numbers of nodes belong into "
            f"{name.removesuffix('mask')}idx",
            str(file),
        )
    return given.astype(bool)


def _features(arrays: dict[str, Array], held: list[str]) -> Any:
    if "x" in arrays and arrays["x"].ndim == 2:
        return arrays["x"]
    missing = [name for name in _SPARSE if name not in arrays]
    if "x" in arrays or missing:
        raise InputError(
            "x: expected an array x [nodes, features], or "
            f"{', '.join(_SPARSE)}; the file has {', '.join(sorted(held)) or 'none'}"
        )
    sparse = require(
        "scipy.sparse", extra="graphs", why="for features of few values in a row"
    )
    data, indices, starts, shape = (arrays[name] for name in _SPARSE)
    try:
        x = sparse.csr_array((data, indices, starts), shape=tuple(shape.tolist()))
        x.check_format(full_check=True)  # the range of the indices, too
    except (ArithmeticError, TypeError, ValueError) as error:
        raise InputError(f"x_data, x_indices, x_indptr: {error}") from error
    return x


def _check_finite(x: Any) -> None:
    values = x.data if hasattr(x, "tocsr") else x
    if np.isfinite(values).all():
        return
    found = x.tocoo() if hasattr(x, "tocsr") else None
    at = np.unravel_index(int(np.argmin(np.isfinite(values))), values.shape)
    row, column = at if found is None else (found.row[at], found.col[at])
    raise InputError(
        f"x[{row}, {column}] is {values[at]}, expected a finite number; correct it"
    )


def _normalized(x: Any) -> Any:
    if x.dtype not in (np.float32, np.float64):
        x = x.astype(np.float64)  # float16 and int8 overflow
    sums = np.asarray(abs(x).sum(axis=1)).reshape(-1, 1)
    scale = np.divide(1.0, sums, out=np.zeros(sums.shape), where=sums != 0)
    if not hasattr(x, "tocsr"):
        return (x * scale).astype(np.float32)
    return x.multiply(scale).tocsr().astype(np.float32)


def _edges(arrays: dict[str, Array], held: list[str], undirected: bool) -> Array:
    if "edge_index" in arrays:
        pairs = arrays["edge_index"]
    elif "edges" in arrays:
        pairs = arrays["edges"].T
    else:
        raise InputError(
            "edges: expected edge_index [2, edges], or edges [edges, 2]; the file has "
            f"{', '.join(sorted(held)) or 'none'}"
        )
    if pairs.ndim != 2 or len(pairs) != 2:
        raise InputError(
            f"edges: shape {pairs.shape}, expected edge_index [2, edges], or edges "
            "[edges, 2]"
        )
    if not undirected:
        return pairs
    both = np.concatenate([pairs, pairs[::-1]], axis=1)
    found, numbers = np.unique(both, axis=1, return_inverse=True)
    given, wanted = (
        np.bincount(part, minlength=found.shape[1])
        for part in np.split(numbers.reshape(-1), 2)
    )
    lacking = np.maximum(wanted - given, 0)  # count(i -> j) - count(j -> i)
    return np.concatenate([pairs, np.repeat(found, lacking, axis=1)], axis=1)
