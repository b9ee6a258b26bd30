// Conversion of flat attention maps to one dense array, and back.
#pragma once

#include "autograd/var.h"
#include "ops/packing.h"

namespace ea {

// Positions of packed tokens in a padded array of lengths T = `queries` and S =
// `keys`. The columns, int64 [total queries] and [total keys] on the CPU,
// increase within each sequence. Without columns, the tokens of a sequence come
// first.
struct PaddedShape {
  std::int64_t queries, keys;
  Tensor query_columns, key_columns;
};

// Returns [sequences, heads, T, S] from flat maps, zero elsewhere; by default T
// and S are the lengths of the longest sequences. Maps of windows give
// [sequences, heads, T, span S]: S columns for each neighbouring head. Throws
// ShapeError if a sequence does not fit.
Var unpack_maps(const Var& maps, const PackingPtr& packing);
Var unpack_maps(const Var& maps, const PackingPtr& packing,
                const PaddedShape& padded);

// Transpose of unpack_maps(): returns flat maps from the matching cells of
// [sequences, heads, T, S]. T and S are taken from the array.
Var pack_maps(const Var& dense, const PackingPtr& packing,
              const Tensor& query_columns = {}, const Tensor& key_columns = {});

}  // namespace ea
