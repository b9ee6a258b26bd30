// What the attention of a decoder keeps from token to token.
#pragma once

#include "nn/attention/slots.h"

namespace ea {

// Sequences in step: of self attention all have as many tokens. The maps of the
// next token may depend on rows of a few earlier ones: their queries are kept,
// and these rows of scores are computed again, which is less memory than the
// rows of all heads.
struct AttentionCache {
  Var keys, values;   // [sequences, tokens, width]; of cross attention [total
                      // memory tokens, width], which stay as they are
  Var queries;        // [sequences, earlier rows, width], or undefined
  PackingPtr memory;  // of cross attention: the sequences of the keys
  std::int64_t earlier = 0;  // the most rows of queries that are kept

  // Keeps the sequences with these indices, in this order. `same_memory`: the
  // memory of sequence kept[i] is that of sequence i, for all.
  void select(const std::vector<std::int64_t>& kept, bool same_memory = false);
};

// Sequences of `packing` by index, as indices of their rows and as offsets.
struct SelectedRows {
  Tensor rows;  // int64
  std::vector<std::int64_t> offsets;
};
SelectedRows select_rows(const std::vector<std::int64_t>& offsets,
                         const std::vector<std::int64_t>& kept);

}  // namespace ea
