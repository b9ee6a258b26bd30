// How attention maps of sequences of different lengths lie in memory.
#pragma once

#include <cstdint>

#include "tensor/tensor_view.h"

namespace ea {

// Token rows of sequence b are q_offsets[b] .. q_offsets[b+1] on the query side
// and k_offsets[b] .. k_offsets[b+1] on the key side. Its maps, [heads, n_q,
// n_k] row-major, begin at element heads * cell_offsets[b] of a flat tensor:
// one sequence after another, without padding. With equal lengths this is the
// familiar contiguous [B, H, T, S]. The offsets lie on the CPU for every
// device.
//
// With `on_device` a kernel of a device takes them from there instead, so that
// work that is written down once serves other lengths: the offsets on the CPU
// are then those of one example. The maps have room for `sequences` times
// longest_q x longest_k cells in each head; those behind the last sequence's
// are neither read nor written.
struct MapLayout {
  std::int64_t heads = 0;
  std::int64_t sequences = 0;
  const std::int64_t* q_offsets = nullptr;  // [sequences + 1]
  const std::int64_t* k_offsets = nullptr;  // [sequences + 1]
  const std::int64_t* cell_offsets =
      nullptr;  // [sequences + 1], sums of n_q n_k
  // Optional, int64 [3, sequences + 1]: q_offsets, k_offsets, cell_offsets.
  TensorView on_device = {};
  // The most queries and keys that a sequence may then have.
  std::int64_t longest_q = 0, longest_k = 0;

  std::int64_t n_q(std::int64_t b) const {
    return q_offsets[b + 1] - q_offsets[b];
  }
  std::int64_t n_k(std::int64_t b) const {
    return k_offsets[b + 1] - k_offsets[b];
  }
  // First element of the maps of sequence b.
  std::int64_t begin(std::int64_t b) const { return heads * cell_offsets[b]; }
  std::int64_t numel() const {
    return heads * (on_device.defined() ? sequences * longest_q * longest_k
                                        : cell_offsets[sequences]);
  }
};

}  // namespace ea
