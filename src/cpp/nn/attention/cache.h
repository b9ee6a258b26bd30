// State that a decoder's attention keeps from token to token.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/attention/slots.h"

namespace ea {

// How a step of a layer's attention is computed.
struct CachePlan {
  // Whether ops/cached_attention.h reads the cached rows by index. If the maps
  // of the next token depend on rows of a few earlier tokens, the last rows of
  // the convolution's input are kept.
  bool by_number = false;
  // Otherwise: the number of earlier tokens whose queries are kept. Their rows
  // of all maps of a chain are recomputed.
  std::int64_t earlier = 0;
};

// Rows of keys and values stay where they were written. Each sequence has an
// ordered list of the indices of its rows, so reordering beams or ending
// sentences moves no data.
struct AttentionCache {
  using Rows = std::vector<std::int64_t>;

  Tensor keys, values;        // [capacity, width]
  std::int64_t used = 0;      // rows written
  std::vector<Rows> rows;     // row indices of each sequence, in order
  std::int64_t expected = 0;  // total rows that the caller expects
  Var queries;                // [sequences, earlier rows, width], or undefined
  bool of_memory = false;     // cross attention: the rows never change
  CachePlan plan = {};
  Tensor maps = {};                 // [rows, heads, capacity], or undefined
  std::vector<Rows> map_rows = {};  // per sequence; -1: before its first
  std::int64_t maps_added = 0;

  // Keeps the sequences with these indices, in this order. `same_memory`: for
  // every i, sequence kept[i] has the same memory as sequence i.
  void select(const std::vector<std::int64_t>& kept, bool same_memory = false);
  struct Pair {
    Tensor keys, values;
  };
  // Appends one row for every sequence and returns views [sequences, width]
  // that the caller fills. `like` gives the number of sequences, the dtype and
  // the device.
  Pair append(const Tensor& like, std::int64_t key_width,
              std::int64_t value_width);

  // Adds one map row for every sequence, for a convolution whose kernel has
  // this side. Returns the argument map_rows of kernels/cached_attention.h.
  Rows add_map(std::int64_t heads, std::int64_t side);

  // Row indices of all sequences, one sequence after the other.
  Rows all_rows() const;
  Rows offsets() const;
  // Returns keys and values in the order of all_rows(), [total, width]. A
  // memory's cache keeps this order.
  Pair gather();

 private:
  void make_room_for_maps(std::int64_t heads, std::int64_t side);
};

// Selected sequences: the indices of their rows, and their offsets.
struct SelectedRows {
  Tensor rows;  // int64
  std::vector<std::int64_t> offsets;
};
SelectedRows select_rows(const std::vector<std::int64_t>& offsets,
                         const std::vector<std::int64_t>& kept);

}  // namespace ea
