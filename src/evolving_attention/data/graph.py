"""Graphs: nodes and edges from matrices and lists, checked, and sorted once."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from evolving_attention._core import Edges
from evolving_attention.errors import DTypeError, InputError, ShapeError

Array = np.ndarray[Any, Any]
_Self = TypeVar("_Self", bound="Graph")
_MANY = 100_000_000  # nodes; more of them need many edges, or num_nodes


class Graph:
    """Nodes 0 to ``num_nodes`` − 1 and the edges between them.

    Edge e goes from ``sources[e]`` to ``targets[e]``: the target attends to the source.
    An undirected edge is two edges. Parallel edges between two nodes are kept and count
    separately; a node may have no edges, or an edge to itself. Edges are sorted by
    target; edges with the same target keep the given order.

    Args:
        sources, targets: [edges] integers.
        num_nodes: number of nodes; None: the greatest node number plus one. Node
            numbers far above the number of edges are then refused.
        symmetric: whether every edge must have its reverse edge; this is checked, and
            an edge without one is refused.

    Attributes:
        num_nodes, num_edges: number of nodes and of edges.
        edges: the edges as ``F.Edges``, sorted once.

    Raises:
        InputError: a number is negative or not a node, or an edge of a symmetric graph
            has no reverse edge; names the edge.
        ShapeError: the two lists differ in length, or have several axes.
        DTypeError: the numbers are not integers.

    Example:
        >>> import evolving_attention as ea
        >>> graph = ea.Graph(sources=[0, 1, 2], targets=[1, 0, 1])
        >>> graph.num_nodes, graph.edge_index.tolist()
        (3, [[1, 0, 2], [0, 1, 1]])
    """

    def __init__(
        self,
        sources: Any,
        targets: Any,
        num_nodes: int | None = None,
        *,
        symmetric: bool = False,
    ) -> None:
        given = [_integers(sources, "sources"), _integers(targets, "targets")]
        if len(given[0]) != len(given[1]):
            raise ShapeError(
                f"graph: {len(given[0])} sources and {len(given[1])} targets, expected "
                "one of each for every edge"
            )
        greatest = max((int(one.max()) for one in given if len(one)), default=-1)
        if num_nodes is None and greatest > max(_MANY, 1000 * len(given[0])):
            raise InputError(
                f"graph: the greatest node number is {greatest:,} with "
                f"{len(given[0]):,} edge(s), expected nodes numbered from 0; number "
                "them by np.unique(nodes, return_inverse=True), or pass num_nodes"
            )
        self.num_nodes = greatest + 1 if num_nodes is None else _count(num_nodes)
        for name, nodes in zip(("sources", "targets"), given, strict=True):
            _check_nodes(nodes, self.num_nodes, name)
        order = np.argsort(given[1], kind="stable")
        self._sources, self._targets = given[0][order], given[1][order]
        counts = np.bincount(self._targets, minlength=self.num_nodes)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.edges = Edges(starts, self._sources, self.num_nodes)
        self._looped: Graph | None = None
        if symmetric:
            self._check_symmetric()

    # --- other forms --------------------------------------------------------------

    @classmethod
    def of(
        cls: type[_Self],
        value: Any,
        num_nodes: int | None = None,
        *,
        symmetric: bool = False,
    ) -> _Self:
        """Builds a graph from any of the usual forms.

        Args:
            value: a graph; a sparse SciPy matrix or array, [nodes, nodes], whose
                nonzero entries (i, j) are edges from i to j; PyTorch Geometric's
                ``edge_index`` [2, edges], sources before targets; or a list of pairs
                (source, target), [edges, 2]. A 2 × 2 value is read as an
                ``edge_index``. A NetworkX graph G is given as
                ``networkx.to_scipy_sparse_array(G)``.
            num_nodes: as in the constructor; for a matrix, its size.
            symmetric: as in the constructor.

        Raises:
            InputError, ShapeError, DTypeError: the value is none of these, or an edge
                is wrong; says which.
        """
        if isinstance(value, cls):
            if num_nodes not in (None, value.num_nodes):
                raise ShapeError(
                    f"graph: has {value.num_nodes} nodes, expected {num_nodes}"
                )
            if symmetric:
                value._check_symmetric()
            return value
        if hasattr(value, "tocoo"):
            return cls._of_matrix(value, num_nodes, symmetric)
        _refuse_objects(value)
        pairs = _array(value)
        if pairs.size == 0:
            pairs = np.zeros((2, 0), np.int64)
        if pairs.ndim != 2 or 2 not in pairs.shape:
            raise ShapeError(
                f"graph: shape {pairs.shape}, expected an edge_index [2, edges], a "
                "list of pairs [edges, 2], or a sparse matrix of SciPy; make one of an "
                "array with scipy.sparse.csr_array"
            )
        sources, targets = pairs if pairs.shape[0] == 2 else pairs.T
        return cls(sources, targets, num_nodes, symmetric=symmetric)

    @classmethod
    def _of_matrix(
        cls: type[_Self], matrix: Any, num_nodes: int | None, symmetric: bool
    ) -> _Self:
        rows = matrix.shape[0]
        if matrix.shape != (rows, rows) or num_nodes not in (None, rows):
            expected = rows if num_nodes is None else num_nodes
            raise ShapeError(
                f"graph: a matrix of shape {matrix.shape}, expected "
                f"({expected}, {expected}): a row and a column for each node"
            )
        summed = matrix.tocsr(copy=True)
        summed.sum_duplicates()
        entries = summed.tocoo()
        values = np.asarray(entries.data)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            at = int(np.argmin(np.isfinite(values)))
            raise InputError(
                f"graph: entry ({entries.row[at]}, {entries.col[at]}) is {values[at]}, "
                "expected 0 (no edge) or another number (an edge)"
            )
        there = np.asarray(values != 0)
        return cls(entries.row[there], entries.col[there], rows, symmetric=symmetric)

    # --- contents -----------------------------------------------------------------

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return len(self._sources)

    @property
    def edge_index(self) -> Array:
        """int64 [2, edges], sources before targets, sorted by target; a copy."""
        return np.stack([self._sources, self._targets])

    def with_self_loops(self) -> Graph:
        """Returns the graph with exactly one self loop per node, after its other edges.

        Existing self loops are replaced, as in PyTorch Geometric. The result is cached.
        """
        if self._looped is None:
            kept = self._sources != self._targets
            nodes = np.arange(self.num_nodes)
            self._looped = Graph(
                np.concatenate([self._sources[kept], nodes]),
                np.concatenate([self._targets[kept], nodes]),
                self.num_nodes,
            )
            self._looped._looped = self._looped
        return self._looped

    def _check_symmetric(self) -> None:
        n = max(self.num_nodes, 1)
        there = np.sort(self._sources * n + self._targets)
        back = np.sort(self._targets * n + self._sources)
        if np.array_equal(there, back):
            return
        codes, found = (np.unique(one, return_counts=True) for one in (there, back))
        others = dict(zip(found[0].tolist(), found[1].tolist(), strict=True))
        for code, count in zip(codes[0].tolist(), codes[1].tolist(), strict=True):
            if others.get(code, 0) != count:
                source, target = divmod(code, n)
                raise InputError(
                    f"graph: {count} edge(s) from {source} to {target} and "
                    f"{others.get(code, 0)} back, expected as many, since symmetric="
                    "True; add what is missing (A + A.T), or leave symmetric out"
                )

    def __reduce__(self) -> tuple[Any, ...]:
        return Graph, (self._sources, self._targets, self.num_nodes)

    def __repr__(self) -> str:
        return f"Graph(num_nodes={self.num_nodes}, num_edges={self.num_edges})"


def sparse_rows(matrix: Any) -> tuple[Array, Edges]:
    """Converts a sparse SciPy matrix to its values and their positions.

    Returns:
        The float values [count], row by row, and edges from column to row.
    """
    rows = matrix.tocsr()
    values = np.asarray(rows.data)
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float32)
    starts, columns = (
        np.asarray(one, dtype=np.int64) for one in (rows.indptr, rows.indices)
    )
    return values, Edges(starts, columns, rows.shape[1])


def _refuse_objects(value: Any) -> None:
    """Refuse other libraries' graphs and matrices; says how to convert them.

    NumPy would read a NetworkX graph with pairs as nodes as a list of edges.
    """
    if hasattr(value, "nodes") and hasattr(value, "edges"):
        remedy = "for a NetworkX graph G pass networkx.to_scipy_sparse_array(G)"
    elif hasattr(value, "edge_index"):
        remedy = "pass its edge_index, and num_nodes if some nodes have no edges"
    elif str(getattr(value, "layout", "")).startswith("torch.sparse"):
        remedy = "for a sparse tensor A pass A.to_sparse_coo().coalesce().indices()"
    else:
        return
    raise DTypeError(
        f"graph: a {type(value).__module__}.{type(value).__name__}, expected an "
        "edge_index [2, edges], a list of pairs [edges, 2], or a sparse matrix of "
        f"SciPy; {remedy}"
    )


def _array(value: Any) -> Array:
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as error:
        raise DTypeError(
            f"graph: {error}; expected integers, the numbers of nodes"
        ) from None


def _integers(value: Any, name: str) -> Array:
    found = _array(value)
    if found.ndim != 1:
        raise ShapeError(f"graph: {name} has shape {found.shape}, expected [edges]")
    if found.size == 0:
        return np.zeros(0, np.int64)
    if found.dtype.kind not in "iu":
        raise DTypeError(
            f"graph: {name} are {found.dtype}, expected integers, the numbers of nodes"
        )
    greatest = int(found.max())
    if greatest > np.iinfo(np.int64).max:  # uint64
        raise InputError(
            f"graph: {name} have the node {greatest}, expected numbers below 2**63; "
            "number the nodes from 0"
        )
    return found.astype(np.int64)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise InputError(f"graph: num_nodes={value!r}, expected a whole number from 0")
    return int(value)


def _check_nodes(nodes: Array, count: int, name: str) -> None:
    bad = (nodes < 0) | (nodes >= count)
    if not bad.any():
        return
    at = int(np.argmax(bad))
    why = "is negative" if nodes[at] < 0 else "does not exist"
    raise InputError(
        f"graph: {name}[{at}] = {nodes[at]}: the node {why}, expected 0 to "
        f"{count - 1}; correct the edge, or pass num_nodes"
    )
