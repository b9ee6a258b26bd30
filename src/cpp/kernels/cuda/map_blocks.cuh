// Blocks that each work on a part of one sequence's maps: which part is found
// from the block's number alone.
#pragma once

#include "kernels/cuda/map_rows.cuh"
#include "runtime/check.h"

namespace ea::cuda {

// The sequence of a block, and the block's number within it.
struct MapBlock {
  std::int64_t queries, keys;           // its lengths
  std::int64_t first_query, first_key;  // its first tokens
  std::int64_t begin;                   // the first cell of its maps
  std::int64_t number;

  // First cell of row i of head h.
  EA_HOST_DEVICE std::int64_t row(std::int64_t h, std::int64_t i) const {
    return begin + (h * queries + i) * keys;
  }
};

// Sequences of one launch, and how many blocks come before each. Where offsets
// lie on the device, every sequence has as many blocks as the longest might
// need: a kernel has to leave those out whose `number` is beyond its count.
struct MapBlocks {
  MapRows maps;
  std::int32_t first[MapRows::kMost + 1];
  const std::int64_t* offsets = nullptr;  // MapLayout::on_device, or null
  std::int64_t each = 0;                  // blocks of a sequence then

  EA_HOST_DEVICE MapBlock find(unsigned block) const {
    if (offsets != nullptr) {
      return of_sequence(static_cast<int>(block / each), block % each);
    }
    const auto wanted = static_cast<std::int32_t>(block);
    const int b = sequence_of(first, maps.sequences, wanted);
    return of_sequence(b, wanted - first[b]);
  }
  // Block `number` of sequence b.
  EA_HOST_DEVICE MapBlock of_sequence(int b, std::int64_t number) const {
    if (offsets != nullptr) {
      const std::int64_t* const q = offsets + b;
      const std::int64_t* const k = q + maps.sequences + 1;
      const std::int64_t* const cells = k + maps.sequences + 1;
      return {q[1] - q[0], k[1] - k[0],           q[0],
              k[0],        maps.heads * cells[0], number};
    }
    return {maps.q[b + 1] - maps.q[b],
            maps.k[b + 1] - maps.k[b],
            maps.q[b],
            maps.k[b],
            maps.heads * maps.cells[b],
            number};
  }
};

// How many blocks sequences need of which count(queries, keys) says how many
// one of these lengths needs.
template <typename Count>
std::int64_t map_blocks(const MapLayout& layout, Count&& count) {
  if (layout.on_device.defined()) {
    return layout.sequences * count(layout.longest_q, layout.longest_k);
  }
  std::int64_t total = 0;
  for (std::int64_t b = 0; b < layout.sequences; ++b) {
    total += count(layout.n_q(b), layout.n_k(b));
  }
  return total;
}

inline void check_map_blocks(std::int64_t total) {
  EA_CHECK(total < (std::int64_t{1} << 31), "launch",
           "the attention maps need {} blocks; at most 2^31 - 1 fit one launch",
           total);
}

// Calls fn(blocks, their number) for all sequences of a layout, kMost at a time
// unless the device has the offsets. count: as above, and never falling.
template <typename Count, typename Fn>
void for_map_blocks(const MapLayout& layout, Count&& count, Fn&& fn) {
  if (layout.on_device.defined()) {
    MapBlocks blocks;
    blocks.maps.heads = layout.heads;
    blocks.maps.sequences = static_cast<int>(layout.sequences);
    blocks.offsets = layout.on_device.as<const std::int64_t>();
    blocks.each = count(layout.longest_q, layout.longest_k);
    const std::int64_t total = map_blocks(layout, count);
    check_map_blocks(total);
    if (total > 0) fn(blocks, static_cast<unsigned>(total));
    return;
  }
  for (std::int64_t b = 0; b < layout.sequences; b += MapRows::kMost) {
    MapBlocks blocks;
    blocks.maps = map_rows_from(layout, b);
    std::int64_t total = 0;
    for (int i = 0; i < blocks.maps.sequences; ++i) {
      blocks.first[i] = static_cast<std::int32_t>(total);
      total += count(layout.n_q(b + i), layout.n_k(b + i));
      check_map_blocks(total);
    }
    blocks.first[blocks.maps.sequences] = static_cast<std::int32_t>(total);
    if (total > 0) fn(blocks, static_cast<unsigned>(total));
  }
}

}  // namespace ea::cuda
