// Blocks that each process a part of one sequence's maps; a block finds its
// part from its index.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/cuda/map_rows.cuh"
#include "runtime/check.h"

namespace ea::cuda {

// Sequence of a block, and the index of the block within it.
struct MapBlock {
  int queries, keys;                    // lengths of the sequence
  std::int64_t first_query, first_key;  // its first tokens
  std::int64_t begin;                   // first cell of its maps
  std::int64_t number;
  std::int64_t heads;
  const std::uint8_t* mask;  // of its keys; null for none
  bool causal;

  // Returns whether cell (i, j) exists (kernels/map_layout.h); the cell must be
  // inside the map.
  EA_HOST_DEVICE bool exists(std::int64_t i, std::int64_t j) const {
    return (!causal || j < MapLayout::columns_of(true, queries, keys, i)) &&
           (mask == nullptr || mask[j] != 0);
  }
  EA_HOST_DEVICE bool dense() const { return !causal && mask == nullptr; }

  // Index of row i of head h among the rows of the sequence.
  EA_HOST_DEVICE int line(std::int64_t h, std::int64_t i) const {
    return static_cast<int>(h) * queries + static_cast<int>(i);
  }
  // First cell of that row.
  EA_HOST_DEVICE std::int64_t row(std::int64_t h, std::int64_t i) const {
    return begin + std::int64_t{line(h, i)} * keys;
  }
};

// Sequences of one launch, and the number of blocks before each.
struct MapBlocks {
  MapRows maps;
  std::int32_t first[MapRows::kMost + 1];

  EA_HOST_DEVICE MapBlock find(unsigned block) const {
    const auto wanted = static_cast<std::int32_t>(block);
    const int b = sequence_of(first, maps.sequences, wanted);
    return of_sequence(b, wanted - first[b]);
  }
  // Returns block `number` of sequence b.
  EA_HOST_DEVICE MapBlock of_sequence(int b, std::int64_t number) const {
    return {static_cast<int>(maps.q[b + 1] - maps.q[b]),
            static_cast<int>(maps.k[b + 1] - maps.k[b]),
            maps.q[b],
            maps.k[b],
            maps.heads * maps.cells[b],
            number,
            maps.heads,
            maps.mask(b),
            maps.causal};
  }
};

// Calls fn(blocks, number of blocks) for all sequences of a layout, kMost at a
// time. count(queries, keys) returns the number of blocks for a sequence of
// these lengths.
template <typename Count, typename Fn>
void for_map_blocks(const MapLayout& layout, Count&& count, Fn&& fn) {
  for (std::int64_t b = 0; b < layout.sequences; b += MapRows::kMost) {
    MapBlocks blocks;
    blocks.maps = map_rows_from(layout, b);
    std::int64_t total = 0;
    for (int i = 0; i < blocks.maps.sequences; ++i) {
      blocks.first[i] = static_cast<std::int32_t>(total);
      total += count(layout.n_q(b + i), layout.n_k(b + i));
      EA_CHECK(total < (std::int64_t{1} << 31), "launch",
               "the attention maps need {} blocks; at most 2^31 - 1 fit one "
               "launch",
               total);
    }
    blocks.first[blocks.maps.sequences] = static_cast<std::int32_t>(total);
    if (total > 0) fn(blocks, static_cast<unsigned>(total));
  }
}

// Launches kernel(blocks, args...) on these blocks, each with `shared` bytes of
// shared memory.
template <typename Count, typename... Params, typename... Args>
void launch_map_blocks(const MapLayout& layout, const Count& count,
                       unsigned threads, std::size_t shared,
                       void (*kernel)(MapBlocks, Params...),
                       const Args&... args) {
  for_map_blocks(layout, count, [&](const MapBlocks& blocks, unsigned n) {
    launch(current_stream(), n, threads, shared, kernel, blocks, args...);
  });
}

}  // namespace ea::cuda
