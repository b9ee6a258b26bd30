// Checks offsets and derives the places of the maps.
#include "ops/packing.h"

#include <algorithm>

#include "runtime/check.h"
#include "tensor/residents.h"

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

PackingPtr Packing::roomy(std::int64_t heads, std::vector<std::int64_t> offsets,
                          std::int64_t longest) {
  const auto made = std::make_shared<Packing>(heads, std::move(offsets));
  EA_CHECK(longest > 0 && made->longest_query() <= longest, "packing",
           "a sequence has {} tokens, there is room for {}",
           made->longest_query(), longest);
  made->room_ = longest;
  const std::int64_t n = made->sequences() + 1;
  made->offsets_ = empty({3, n}, DType::i64);
  auto* to = made->offsets_.data<std::int64_t>();
  for (const auto* list :
       {&made->q_offsets_, &made->k_offsets_, &made->cell_offsets_}) {
    to = std::copy(list->begin(), list->end(), to);
  }
  return made;
}

std::int64_t Packing::map_elements() const {
  return heads_ *
         (room_ > 0 ? sequences() * room_ * room_ : cell_offsets_.back());
}

MapLayout Packing::plain_layout() const {
  return {heads_, sequences(), q_offsets_.data(), k_offsets_.data(),
          cell_offsets_.data()};
}

MapLayout Packing::layout() const {
  EA_CHECK_AS(ConfigError, room_ == 0, "packing",
              "attention maps with room for longer sequences can be used by "
              "fused attention alone: a step with output_attentions, an own "
              "kind of attention or EA_DISABLE=fused_attention cannot be "
              "written down; leave the option out");
  return plain_layout();
}

MapLayout Packing::layout(Device device) const {
  MapLayout maps = plain_layout();
  const Tensor twin = room_ > 0 ? twin_of(offsets_, device) : Tensor();
  if (twin.defined()) {
    maps.on_device = twin;
    maps.longest_q = maps.longest_k = room_;
  }
  return maps;
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
