// Checks offsets and derives the places of the maps.
#include "ops/packing.h"

#include <algorithm>

#include "runtime/check.h"

namespace ea {

namespace {

void check_offsets(const std::vector<std::int64_t>& offsets) {
  EA_CHECK(
      !offsets.empty() && offsets.front() == 0, "packing",
      "sequence_offsets must start with 0 (one more entry than sequences)");
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    EA_CHECK(offsets[i] >= offsets[i - 1], "packing",
             "sequence_offsets[{}] = {} is below sequence_offsets[{}] = {}", i,
             offsets[i], i - 1, offsets[i - 1]);
  }
}

std::int64_t longest(const std::vector<std::int64_t>& offsets) {
  std::int64_t most = 0;
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    most = std::max(most, offsets[i] - offsets[i - 1]);
  }
  return most;
}

}  // namespace

Packing::Packing(std::int64_t heads, std::vector<std::int64_t> offsets)
    : Packing(heads, offsets, offsets) {}

Packing::Packing(std::int64_t heads, std::vector<std::int64_t> q_offsets,
                 std::vector<std::int64_t> k_offsets)
    : heads_(heads),
      q_offsets_(std::move(q_offsets)),
      k_offsets_(std::move(k_offsets)) {
  check_offsets(q_offsets_);
  check_offsets(k_offsets_);
  EA_CHECK(heads_ > 0, "packing", "expected at least one head, got {}", heads_);
  EA_CHECK(q_offsets_.size() == k_offsets_.size(), "packing",
           "{} query sequences but {} key sequences", q_offsets_.size() - 1,
           k_offsets_.size() - 1);
  cell_offsets_.push_back(0);
  for (std::size_t b = 1; b < q_offsets_.size(); ++b) {
    cell_offsets_.push_back(cell_offsets_.back() +
                            (q_offsets_[b] - q_offsets_[b - 1]) *
                                (k_offsets_[b] - k_offsets_[b - 1]));
  }
}

PackingPtr Packing::causal(const PackingPtr& packing) {
  if (packing->causal_) return packing;
  Packing limited = *packing;
  limited.causal_ = true;
  return std::make_shared<const Packing>(std::move(limited));
}

PackingPtr Packing::masked(const PackingPtr& packing, const Tensor& key_mask) {
  if (!key_mask.defined() && !packing->key_mask_.defined()) return packing;
  EA_CHECK(!key_mask.defined() || (key_mask.dtype() == DType::u8 &&
                                   key_mask.numel() == packing->total_keys()),
           "packing", "key_mask is {} {}, expected uint8 ({},)",
           key_mask.dtype(), key_mask.shape(), packing->total_keys());
  Packing seen = *packing;
  seen.key_mask_ = key_mask.defined() ? contiguous(key_mask) : key_mask;
  return std::make_shared<const Packing>(std::move(seen));
}

PackingPtr Packing::between(const PackingPtr& queries, const PackingPtr& keys,
                            std::int64_t heads) {
  const bool itself = queries->q_offsets_ == keys->q_offsets_;
  if (itself && queries->heads_ == heads &&
      queries->k_offsets_ == keys->q_offsets_) {
    return queries;
  }
  EA_CHECK(queries->sequences() == keys->sequences(), "attention",
           "{} sequences of queries and {} of keys; expected as many, in pairs",
           queries->sequences(), keys->sequences());
  return std::make_shared<const Packing>(heads, queries->q_offsets_,
                                         keys->q_offsets_);
}

bool Packing::same_maps(const Packing& other) const {
  return this == &other ||
         (heads_ == other.heads_ && q_offsets_ == other.q_offsets_ &&
          k_offsets_ == other.k_offsets_);
}

std::int64_t Packing::longest_query() const { return longest(q_offsets_); }

std::int64_t Packing::longest_key() const { return longest(k_offsets_); }

MapLayout Packing::layout() const {
  return {heads_,
          sequences(),
          q_offsets_.data(),
          k_offsets_.data(),
          cell_offsets_.data(),
          causal_,
          key_mask_};
}

}  // namespace ea
