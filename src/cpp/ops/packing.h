// Which rows belong to which sequence, and where their attention maps lie.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/map_layout.h"
#include "tensor/tensor.h"

namespace ea {

// Immutable offsets of packed sequences and the maps of `heads` heads between
// them; shared by every layer of a pass. See kernels/map_layout.h.
class Packing {
 public:
  // offsets: [sequences + 1], from 0, not falling. Throws ShapeError.
  Packing(std::int64_t heads, std::vector<std::int64_t> offsets);
  // Cross attention: queries and keys have their own offsets.
  Packing(std::int64_t heads, std::vector<std::int64_t> q_offsets,
          std::vector<std::int64_t> k_offsets);
  // Of self attention, with room for sequences of up to `longest` tokens, so
  // that the shapes do not depend on the lengths: for steps that are written
  // down once. Only ops that say so take it.
  static std::shared_ptr<const Packing> roomy(std::int64_t heads,
                                              std::vector<std::int64_t> offsets,
                                              std::int64_t longest);

  std::int64_t heads() const { return heads_; }
  std::int64_t sequences() const {
    return static_cast<std::int64_t>(q_offsets_.size()) - 1;
  }
  std::int64_t total_queries() const { return q_offsets_.back(); }
  std::int64_t total_keys() const { return k_offsets_.back(); }
  std::int64_t map_elements() const;
  std::int64_t longest_query() const;
  std::int64_t longest_key() const;
  const std::vector<std::int64_t>& q_offsets() const { return q_offsets_; }
  const std::vector<std::int64_t>& k_offsets() const { return k_offsets_; }
  // Throws ConfigError for a roomy one.
  MapLayout layout() const;
  // For kernels of `device` that may read the offsets there: they do where the
  // offsets() of a roomy one have a twin.
  MapLayout layout(Device device) const;
  // Of a roomy one: int64 [3, sequences + 1], see MapLayout::on_device.
  const Tensor& offsets() const { return offsets_; }

  // For each element of a dense [sequences, heads, longest query, longest key]
  // array, its place in the flat maps, or -1 outside its sequence.
  std::vector<std::int64_t> padded_map_index() const;

 private:
  MapLayout plain_layout() const;

  std::int64_t heads_;
  std::vector<std::int64_t> q_offsets_, k_offsets_, cell_offsets_;
  std::int64_t room_ = 0;  // tokens of a sequence, or 0
  Tensor offsets_;
};

using PackingPtr = std::shared_ptr<const Packing>;

}  // namespace ea
