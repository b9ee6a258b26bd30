// What the attention of a decoder keeps from token to token.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/attention/slots.h"

namespace ea {

// Rows of keys and values stay where they were written; which of them a
// sequence reads, and in which order, is a list of their numbers: beams that
// change places, and sentences that end, move nothing. The maps of the next
// token may depend on rows of a few earlier ones: their queries are kept, and
// these rows of scores are computed again, which is less memory than the rows
// of all heads.
struct AttentionCache {
  using Rows = std::vector<std::int64_t>;

  Tensor keys, values;       // [room for rows, width]
  std::int64_t used = 0;     // rows written
  std::vector<Rows> rows;    // of each sequence, in order
  Var queries;               // [sequences, earlier rows, width], or undefined
  bool of_memory = false;    // cross attention: the rows never change
  std::int64_t earlier = 0;  // the most rows of queries that are kept

  // Keeps the sequences with these indices, in this order. `same_memory`: the
  // memory of sequence kept[i] is that of sequence i, for all.
  void select(const std::vector<std::int64_t>& kept, bool same_memory = false);
  // One more row of every sequence, [sequences, width].
  void append(const Tensor& key, const Tensor& value);

  // The rows of all sequences, one sequence after the other.
  Rows all_rows() const;
  Rows offsets() const;
  // keys and values in this order: [total, width]. Those of a memory stay so.
  struct Gathered {
    Tensor keys, values;
  };
  Gathered gather();
};

// Sequences of `packing` by index, as indices of their rows and as offsets.
struct SelectedRows {
  Tensor rows;  // int64
  std::vector<std::int64_t> offsets;
};
SelectedRows select_rows(const std::vector<std::int64_t>& offsets,
                         const std::vector<std::int64_t>& kept);

}  // namespace ea
