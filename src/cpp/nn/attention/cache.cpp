// Choosing sequences of a cache.
#include "nn/attention/cache.h"

#include "ops/gather.h"
#include "ops/shape_ops.h"

namespace ea {

namespace {

// x[kept] along the first axis of [sequences, tokens, width].
Var gather_sequences(const Var& x, const Tensor& kept) {
  if (!x.defined()) return x;
  const Shape& shape = x.shape();
  const Var rows = reshape(x, {shape[0], shape[1] * shape[2]});
  return reshape(gather_rows(rows, kept), {kept.numel(), shape[1], shape[2]});
}

}  // namespace

SelectedRows select_rows(const std::vector<std::int64_t>& offsets,
                         const std::vector<std::int64_t>& kept) {
  SelectedRows selected{{}, {0}};
  std::vector<std::int64_t> rows;
  for (const std::int64_t b : kept) {
    const auto at = static_cast<std::size_t>(b);
    for (std::int64_t i = offsets.at(at); i < offsets.at(at + 1); ++i) {
      rows.push_back(i);
    }
    selected.offsets.push_back(static_cast<std::int64_t>(rows.size()));
  }
  selected.rows = from_values(rows);
  return selected;
}

void AttentionCache::select(const std::vector<std::int64_t>& kept,
                            bool same_memory) {
  const Tensor index = from_values(kept);
  queries = gather_sequences(queries, index);
  if (!memory) {
    keys = gather_sequences(keys, index);
    values = gather_sequences(values, index);
    return;
  }
  if (same_memory) return;
  const SelectedRows selected = select_rows(memory->q_offsets(), kept);
  keys = gather_rows(keys, selected.rows);
  values = gather_rows(values, selected.rows);
  memory = std::make_shared<const Packing>(memory->heads(), selected.offsets);
}

}  // namespace ea
