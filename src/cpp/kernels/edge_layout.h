// How the maps over the edges of a graph lie in memory.
#pragma once

#include <cstdint>

#include "tensor/tensor_view.h"

namespace ea {

// Edges sorted by the query that they enter, as compressed rows: those of query
// i are starts[i] .. starts[i + 1], and edge e comes from key keys[e]. A map
// has one row for each edge, [edges, heads] row-major: cell (e, h) is element
// e heads + h. There are no other cells, and nothing of size queries x keys.
//
// The same edges sorted by key, for sums over the edges that leave one: those
// of key j are key_starts[j] .. key_starts[j + 1]; the one at place t enters
// query queries[t] and is edge number order[t]. The numbers of a key rise.
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

}  // namespace ea
