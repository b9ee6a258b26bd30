// Padded and packed batches: which rows are there, and the way back.
#pragma once

#include <vector>

#include "autograd/var.h"
#include "ops/packing.h"

namespace ea {

// The rows that a caller's array holds, in order.
struct Rows {
  std::vector<std::int64_t> offsets{0};  // of the sequences
  std::vector<std::int64_t> places;      // flat place of each kept row
  std::vector<std::int64_t> columns;     // its column
};

// As models compute: one row a token or step, no padding.
struct PackedRows {
  PackingPtr packing;
  bool padded = false;  // the caller gave (and expects) [B, T] arrays
  // For a padded [B * T] array, the packed row of each place, or -1; and the
  // other way round, the flat place of each packed row.
  Tensor pad_index, places;
  // The column of each packed row in a padded array; undefined where each
  // sequence stands in the first ones.
  Tensor columns;
  std::int64_t length = 0;  // T (the longest sequence, for packed input)
};

// Throws ShapeError or InputError unless the offsets (int64) divide the `total`
// rows of the caller's array `what` into sequences that are not empty.
Rows rows_of_packed(const Tensor& offsets, std::int64_t total,
                    const char* what);

// Of packed arrays, and of padded ones, [batch, length].
PackedRows packed_rows(const Rows& rows, std::int64_t heads);
PackedRows packed_rows(const Rows& rows, std::int64_t heads, std::int64_t batch,
                       std::int64_t length);

// [B, T, ...] from packed rows, zeros outside; the input itself when the caller
// gave packed arrays.
Var pad_rows(const Var& rows, const PackedRows& packed);
// [B, heads, T, T] from flat maps, zeros outside.
Var pad_maps(const Var& maps, const PackedRows& packed);

}  // namespace ea
