// Functions between tokens, flat attention maps and dense maps, for Python; one
// entry per op.
#include <pybind11/stl.h>

#include <utility>

#include "bindings/arguments.h"
#include "bindings/numpy.h"
#include "bindings/ops.h"
#include "ops/pair_sum.h"
#include "ops/relative_cells.h"
#include "ops/unpack_maps.h"

namespace ea {

namespace {

void bind_relative(py::module_& ops) {
  ops.def("relative_cells", &relative_cells, py::arg("x"),
          py::arg("packing").none(false), Release(),
          R"(Spreads products by distance over attention maps.

    maps[b, h, i, j] = x[(offsets[b] + i) heads + h, D + clip(j - i, -D, D)]

With the products of each query's heads and the vectors of the distances -D to D
as x, these are the logits of relative keys. Its gradient is relative_sums().

Args:
    x: [total queries * heads, 2 D + 1], a column for each distance.
    packing: heads and sequences; queries and keys may differ in number.

Returns:
    Flat maps [packing.map_elements] in the type of x.

Raises:
    ShapeError: x has other rows, or an even number of columns.

Example:
    >>> from evolving_attention import Tensor, functional as F
    >>> packing = F.Packing(1, [0, 3])
    >>> x = Tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]], dtype="float32")
    >>> F.relative_cells(x, packing).reshape(3, 3).numpy().tolist()
    [[2.0, 3.0, 3.0], [4.0, 5.0, 6.0], [7.0, 7.0, 8.0]]

Source: Shaw et al., NAACL 2018, Eq. 4 and Sec. 3.3.)");
  ops.def(
      "relative_sums",
      [](const Var& maps, const PackingPtr& packing,
         Whole<"relative_sums: max_distance"> max_distance) {
        return relative_sums(maps, packing, max_distance.value);
      },
      py::arg("maps"), py::arg("packing").none(false), py::arg("max_distance"),
      Release(),
      R"(Sums attention maps over the keys at each clipped distance.

    y[(offsets[b] + i) heads + h, D + e] =
        sum of maps[b, h, i, j] over all j with clip(j - i, -D, D) = e

With probabilities as maps, y times the vectors of the distances -D to D is what
relative values add to the context. Its gradient is relative_cells().

Args:
    maps: flat maps of packing.map_elements elements.
    packing: heads and sequences; queries and keys may differ in number.
    max_distance: D, 0 or more.

Returns:
    [total queries * heads, 2 D + 1] in the type of the maps, summed in float32
    (float64 for float64).

Raises:
    ShapeError: the maps have another number of elements.
    ConfigError: max_distance is negative.

Example:
    >>> from evolving_attention import Tensor, functional as F
    >>> packing = F.Packing(1, [0, 3])
    >>> maps = Tensor([1, 2, 3, 4, 5, 6, 7, 8, 9], dtype="float32")
    >>> F.relative_sums(maps, packing, 1).numpy().tolist()
    [[0.0, 1.0, 5.0], [4.0, 5.0, 6.0], [15.0, 9.0, 0.0]]

Source: Shaw et al., NAACL 2018, Eq. 3 and Sec. 3.3.)");
}

void bind_unpack(py::module_& ops) {
  ops.def(
      "unpack_maps",
      [](const Var& maps, const PackingPtr& packing,
         const std::optional<std::pair<std::int64_t, std::int64_t>>& lengths,
         const py::object& query_columns, const py::object& key_columns) {
        const auto [queries, keys] = lengths.value_or(
            std::pair(packing->longest_query(), packing->longest_key()));
        const PaddedShape to{queries, keys,
                             optional_integers(query_columns, "query_columns"),
                             optional_integers(key_columns, "key_columns")};
        const ReleasedGil release;
        return unpack_maps(maps, packing, to);
      },
      py::arg("maps"), py::arg("packing").none(false),
      py::arg("lengths") = py::none(), py::arg("query_columns") = py::none(),
      py::arg("key_columns") = py::none(),
      R"(Unpacks flat maps into one dense array, zero outside each sequence.

    dense[b, h, query_columns[q_offsets[b] + i], key_columns[k_offsets[b] + j]]
        = maps[b, h, i, j]

Maps of windows lie there as the maps of all keys would, 0 outside the windows; with
several heads in a window, key j of its head a is column a S + key_columns[j]. The
gradient is pack_maps().

Args:
    maps: flat maps of packing.map_elements elements.
    packing: heads and sequences.
    lengths: (T, S), the lengths of the padded arrays; by default the longest
        sequences'.
    query_columns: int (total queries,), where each token stands in its padded
        row; rising within a sequence. By default a sequence's tokens come first.
    key_columns: the same for keys, int (total keys,).

Returns:
    [sequences, heads, T, S] in the type of the maps; [sequences, heads, T,
    window_heads S] for windows.

Raises:
    ShapeError: the maps have another number of elements, there is not one column
        for each token, or a sequence is longer than T or S.
    InputError: columns do not rise, or lie outside the padded array.

Example:
    >>> from evolving_attention import Tensor, functional as F
    >>> packing = F.Packing(1, [0, 2, 3])
    >>> maps = Tensor([1, 2, 3, 4, 5], dtype="float32")
    >>> F.unpack_maps(maps, packing).numpy().tolist()
    [[[[1.0, 2.0], [3.0, 4.0]]], [[[5.0, 0.0], [0.0, 0.0]]]])");
}

void bind_pack(py::module_& ops) {
  ops.def(
      "pack_maps",
      [](const Var& dense, const PackingPtr& packing,
         const py::object& query_columns, const py::object& key_columns) {
        const Tensor q = optional_integers(query_columns, "query_columns");
        const Tensor k = optional_integers(key_columns, "key_columns");
        const ReleasedGil release;
        return pack_maps(dense, packing, q, k);
      },
      py::arg("dense"), py::arg("packing").none(false),
      py::arg("query_columns") = py::none(),
      py::arg("key_columns") = py::none(),
      R"(Packs dense maps into flat ones; drops cells outside the sequences.

    maps[b, h, i, j] =
        dense[b, h, query_columns[q_offsets[b] + i], key_columns[k_offsets[b] + j]]

Its gradient is unpack_maps().

Args:
    dense: [sequences, heads, T, S], as unpack_maps() returns it.
    packing: heads and sequences.
    query_columns, key_columns: as in unpack_maps().

Returns:
    Flat maps [packing.map_elements] in the type of the dense ones.

Raises:
    ShapeError: the sequences or heads are not those of the packing, there is not
        one column for each token, or a sequence is longer than T or S.
    InputError: columns do not rise, or lie outside the dense maps.

Example:
    >>> from evolving_attention import Tensor, functional as F
    >>> packing = F.Packing(1, [0, 2, 3])
    >>> dense = Tensor([[[[1, 2], [3, 4]]], [[[5, 6], [7, 8]]]], dtype="float32")
    >>> F.pack_maps(dense, packing).numpy().tolist()
    [1.0, 2.0, 3.0, 4.0, 5.0])");
}

}  // namespace

void bind_map_ops(py::module_& ops) {
  bind_relative(ops);
  bind_unpack(ops);
  bind_pack(ops);
  ops.def("pair_sum", &pair_sum, py::arg("u"), py::arg("v"),
          py::arg("packing").none(false), Release(),
          R"(Adds each query's vector to each key's, for every cell of the maps.

    y[b, h, i, j, :] = u[q_offsets[b] + i, h, :] + v[k_offsets[b] + j, h, :]

Additive and concatenative scores are a product of these vectors, after an
activation, with one vector. The gradients are sums over keys and over queries.

Args:
    u: [total queries, heads * c], head after head.
    v: [total keys, heads * c].
    packing: heads and sequences; queries and keys may differ in number.

Returns:
    Flat [packing.map_elements * c]: the cells in the order of the maps, c values
    each; added in float32 (float64 for float64).

Raises:
    ShapeError: u or v has another number of rows, widths differ, or a width is
        not a multiple of the heads.
    DTypeError: u and v differ in type.

Example:
    >>> from evolving_attention import Tensor, functional as F
    >>> packing = F.Packing(1, [0, 1], [0, 2])
    >>> u = Tensor([[1, 2]], dtype="float32")
    >>> v = Tensor([[10, 20], [30, 40]], dtype="float32")
    >>> F.pair_sum(u, v, packing).numpy().tolist()
    [11.0, 22.0, 31.0, 42.0])");
}

}  // namespace ea
