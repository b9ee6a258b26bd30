// Flat attention maps as one dense array, and back.
#pragma once

#include "autograd/var.h"
#include "ops/packing.h"

namespace ea {

// Where packed tokens lie in a padded array: `queries` and `keys` are its
// lengths T and S. The columns, int64 [total queries] and [total keys] on the
// CPU, rise within each sequence; undefined, a sequence's tokens come first.
struct PaddedShape {
  std::int64_t queries, keys;
  Tensor query_columns, key_columns;
};

// [sequences, heads, T, S] from flat maps, zero outside; T and S are by default
// the longest sequences'. Maps of windows give [sequences, heads, T, span S]: S
// columns for each of the neighbouring heads. Throws ShapeError where a
// sequence does not fit.
Var unpack_maps(const Var& maps, const PackingPtr& packing);
Var unpack_maps(const Var& maps, const PackingPtr& packing,
                const PaddedShape& padded);

// The transpose: flat maps from the cells of [sequences, heads, T, S] that lie
// in them. The lengths of `padded` are those of the array.
Var pack_maps(const Var& dense, const PackingPtr& packing,
              const Tensor& query_columns = {}, const Tensor& key_columns = {});

}  // namespace ea
