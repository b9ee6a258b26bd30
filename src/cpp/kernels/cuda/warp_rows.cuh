// Kernels in which a warp processes each row of maps.
#pragma once

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/map_rows.cuh"

namespace ea::cuda {

inline constexpr int kRowThreads = 128;  // per block
inline constexpr int kBlockRows = kRowThreads / kWarp;

// The row of this warp; at most kBlockRows - 1 more than the last row.
__device__ inline std::int64_t warp_row() {
  return std::int64_t{blockIdx.x} * kBlockRows + threadIdx.x / kWarp;
}

__device__ inline int warp_lane() {
  return static_cast<int>(threadIdx.x) % kWarp;
}

// Launches kernel(args...) with a warp for each of `rows` rows.
template <typename Kernel, typename... Args>
void launch_rows(std::int64_t rows, Kernel kernel, const Args&... args) {
  launch(current_stream(), blocks_for(rows, kBlockRows), kRowThreads, 0, kernel,
         args...);
}

// Launches kernel(maps, args...) on the rows of all queries of a layout.
template <typename Kernel, typename... Args>
void launch_map_rows(const MapLayout& layout, Kernel kernel,
                     const Args&... args) {
  for_map_rows(layout, [&](const MapRows& maps) {
    launch_rows(maps.rows(), kernel, maps, args...);
  });
}

// Row `row` of all [sequence, head, query] of a launch: its first cell, the
// number of its keys, and its place in [query tokens, heads].
struct QueryRow : TokenRow {
  std::int64_t cell, keys, place;

  __device__ QueryRow(const MapRows& maps, std::int64_t row)
      : TokenRow(token_row(maps, maps.q, row)),
        cell(maps.cell(sequence, head, token)),
        keys(maps.k[sequence + 1] - maps.k[sequence]),
        place((maps.q[sequence] + token) * maps.heads + head) {}
};

}  // namespace ea::cuda
