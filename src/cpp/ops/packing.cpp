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

std::int64_t Packing::longest_query() const { return longest(q_offsets_); }

std::int64_t Packing::longest_key() const { return longest(k_offsets_); }

MapLayout Packing::layout() const {
  return {heads_, sequences(), q_offsets_.data(), k_offsets_.data(),
          cell_offsets_.data()};
}

std::vector<std::int64_t> Packing::padded_map_index() const {
  const MapLayout maps = layout();
  const std::int64_t rows = longest_query();
  const std::int64_t columns = longest_key();
  std::vector<std::int64_t> index(
      static_cast<std::size_t>(sequences() * heads_ * rows * columns), -1);
  for (std::int64_t b = 0; b < sequences(); ++b) {
    for (std::int64_t h = 0; h < heads_; ++h) {
      for (std::int64_t i = 0; i < maps.n_q(b); ++i) {
        const std::int64_t from =
            maps.begin(b) + (h * maps.n_q(b) + i) * maps.n_k(b);
        const std::int64_t to = ((b * heads_ + h) * rows + i) * columns;
        for (std::int64_t j = 0; j < maps.n_k(b); ++j) {
          index[static_cast<std::size_t>(to + j)] = from + j;
        }
      }
    }
  }
  return index;
}

}  // namespace ea
