// What the attention of a decoder keeps from token to token.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/attention/slots.h"

namespace ea {

// How a step of a layer's attention is computed.
struct CachePlan {
  // Whether ops/cached_attention.h reads the rows by their numbers. The maps of
  // the next token may depend on rows of a few earlier ones: what a convolution
  // reads of those is kept, the last rows of its input.
  bool by_number = false;
  // Where not: of how many earlier tokens the queries are kept, of which the
  // rows of all maps of a chain are computed again.
  std::int64_t earlier = 0;
};

// Rows of keys and values stay where they were written; which of them a
// sequence reads, and in which order, is a list of their numbers: beams that
// change places, and sentences that end, move nothing.
struct AttentionCache {
  using Rows = std::vector<std::int64_t>;

  Tensor keys, values;        // [room for rows, width]
  std::int64_t used = 0;      // rows written
  std::vector<Rows> rows;     // of each sequence, in order
  std::int64_t expected = 0;  // rows that the caller expects in all
  Var queries;                // [sequences, earlier rows, width], or undefined
  bool of_memory = false;     // cross attention: the rows never change
  CachePlan plan = {};
  Tensor maps = {};                 // [rows, heads, room], or undefined
  std::vector<Rows> map_rows = {};  // of each sequence, -1 before its first
  std::int64_t maps_added = 0;

  // Keeps the sequences with these indices, in this order. `same_memory`: the
  // memory of sequence kept[i] is that of sequence i, for all.
  void select(const std::vector<std::int64_t>& kept, bool same_memory = false);
  struct Pair {
    Tensor keys, values;
  };
  // One more row of every sequence, which the caller writes: [sequences, width]
  // of these widths, in the type and on the device of `like`, whose rows are as
  // many.
  Pair append(const Tensor& like, std::int64_t key_width,
              std::int64_t value_width);

  // One more row of the map of every sequence, behind which a convolution with
  // a kernel of this side reads: the argument map_rows of
  // kernels/cached_attention.h.
  Rows add_map(std::int64_t heads, std::int64_t side);

  // The rows of all sequences, one sequence after the other.
  Rows all_rows() const;
  Rows offsets() const;
  // keys and values in this order: [total, width]. Those of a memory stay so.
  Pair gather();

 private:
  void make_room_for_maps(std::int64_t heads, std::int64_t side);
};

// Sequences of `packing` by index, as indices of their rows and as offsets.
struct SelectedRows {
  Tensor rows;  // int64
  std::vector<std::int64_t> offsets;
};
SelectedRows select_rows(const std::vector<std::int64_t>& offsets,
                         const std::vector<std::int64_t>& kept);

}  // namespace ea
