// Memory layout of attention maps over the edges of a graph.
#pragma once

#include <cstdint>

#include "tensor/tensor_view.h"

namespace ea {

// Edges are sorted by the query that they enter, as compressed rows: query i
// has the edges starts[i] .. starts[i + 1], and edge e comes from key keys[e].
// A map has one row for each edge, [edges, heads] row-major: cell (e, h) is
// element e heads + h. There are no other cells, and no array of size queries x
// keys.
//
// Sums over the edges that leave a key read the edges sorted by key: key j has
// the positions key_starts[j] .. key_starts[j + 1]; the edge at position t
// enters query queries[t] and has the number order[t]. The edge numbers of a
// key increase.
//
// All arrays are int64, on the device of the maps.
struct EdgeLayout {
  std::int64_t heads = 0;
  TensorView starts;      // [number of queries + 1]
  TensorView keys;        // [edges]
  TensorView key_starts;  // [number of keys + 1]
  TensorView queries;     // [edges]
  TensorView order;       // [edges]

  std::int64_t n_q() const { return starts.dim(0) - 1; }
  std::int64_t n_k() const { return key_starts.dim(0) - 1; }
  std::int64_t edges() const { return keys.dim(0); }
};

// The edges of one side, queries or keys, in the order of its rows: row r has
// the positions first[r] .. first[r + 1]; position t is edge number(t), whose
// row of the other side is others[t]. The functions are inlined because SIMD
// sources, compiled for several instruction sets, share no function.
struct EdgeSide {
  std::int64_t rows;
  const std::int64_t* first;
  const std::int64_t* others;
  const std::int64_t* order;  // null: an edge's number is its position

  __attribute__((always_inline)) constexpr std::int64_t number(
      std::int64_t t) const {
    return order == nullptr ? t : order[t];
  }
};

template <bool kQueries>
__attribute__((always_inline)) inline EdgeSide side_of(
    const EdgeLayout& layout) {
  if constexpr (kQueries) {
    return {layout.n_q(), layout.starts.as<const std::int64_t>(),
            layout.keys.as<const std::int64_t>(), nullptr};
  } else {
    return {layout.n_k(), layout.key_starts.as<const std::int64_t>(),
            layout.queries.as<const std::int64_t>(),
            layout.order.as<const std::int64_t>()};
  }
}

}  // namespace ea
