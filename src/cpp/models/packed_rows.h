// The rows of padded and packed batches, and their conversion back.
#pragma once

#include <string>
#include <vector>

#include "autograd/var.h"
#include "ops/packing.h"

namespace ea {

// The rows of a caller's array that are not padding, in order.
struct Rows {
  std::vector<std::int64_t> offsets{0};  // offsets of the sequences
  std::vector<std::int64_t> places;      // flat index of each row
  std::vector<std::int64_t> columns;     // column of each row
};

// The packed form in which models compute: one row per token or step, no
// padding.
struct PackedRows {
  PackingPtr packing;
  bool padded = false;  // the caller gave (and expects) [B, T] arrays
  // For a padded [B * T] array: the packed row of each flat index, or -1; and
  // the flat index of each packed row.
  Tensor pad_index, places;
  // The column of each packed row in a padded array; undefined if every
  // sequence fills the first columns.
  Tensor columns;
  std::int64_t length = 0;  // T (the longest sequence, for packed input)
};

// Throws ShapeError or InputError unless the offsets (int64) divide the `total`
// rows of the caller's array `what` into non-empty sequences. `name`: the
// caller's name of the offsets.
Rows rows_of_packed(const Tensor& offsets, std::int64_t total,
                    const std::string& what,
                    const std::string& name = "sequence_offsets");

// The rows of an array without padding.
Rows whole_rows(std::vector<std::int64_t> offsets);

// The values of an int64 array.
inline const std::int64_t* values(const Tensor& t) {
  return t.data<std::int64_t>();
}

// Returns the contiguous array on the CPU, undefined if `t` is. Throws
// DTypeError unless it is int64; `name`: the caller's name of it.
Tensor host_integers(const std::string& name, const Tensor& t);

// For packed arrays, and for padded arrays [batch, length].
PackedRows packed_rows(const Rows& rows, std::int64_t heads);
PackedRows packed_rows(const Rows& rows, std::int64_t heads, std::int64_t batch,
                       std::int64_t length);

// Returns [B, T, ...] from packed rows, zeros outside; or the input itself if
// the caller gave packed arrays.
Var pad_rows(const Var& rows, const PackedRows& packed);
// Returns [B, heads, T, S] from flat maps of queries over keys, zeros outside;
// `layout` is the layout of the maps. Maps of windows over several heads have S
// columns for each of these heads (ops/unpack_maps.h).
Var pad_maps(const Var& maps, const PackingPtr& layout,
             const PackedRows& queries, const PackedRows& keys);

}  // namespace ea
