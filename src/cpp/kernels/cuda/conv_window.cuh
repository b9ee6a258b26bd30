// Windows of all heads' maps in shared memory, with a halo for the convolution
// over heads, and how large they are.
#pragma once

#include "kernels/cuda/map_blocks.cuh"
#include "kernels/cuda/parts.cuh"

namespace ea::cuda {

inline constexpr int kConvThreads = 256;

// What a block makes: `rows` x `columns` cells of every head. Its window has
// the halo besides, hence a tile's 16 rows.
struct ConvShape {
  int heads, kernel, columns;

  EA_HOST_DEVICE int radius() const { return (kernel - 1) / 2; }
  EA_HOST_DEVICE int rows() const { return kTileM - 2 * radius(); }
  EA_HOST_DEVICE int width() const { return columns + 2 * radius(); }
  EA_HOST_DEVICE int taps() const { return kernel * kernel; }
  // Heads in tiles of 16.
  EA_HOST_DEVICE int head_tiles() const {
    return (heads + kTileM - 1) / kTileM;
  }
  // Floats of shared memory.
  EA_HOST_DEVICE int window() const { return kTileM * width() * heads; }
  EA_HOST_DEVICE int results() const { return rows() * columns * heads; }
};

// A rectangle of cells of the maps of one sequence, all heads, in shared
// memory: [rows, width, heads]. It may reach beyond the maps.
struct Window {
  std::int64_t top, left;
  int rows, width, heads;

  __device__ int at(int row, int column) const {
    return (row * width + column) * heads;
  }
  __device__ bool inside(const MapBlock& block, int row, int column) const {
    return top + row >= 0 && top + row < block.queries && left + column >= 0 &&
           left + column < block.keys;
  }
};

// Calls fn(head, row, column) for all cells of a window, neighbours in a row by
// neighbouring threads.
template <typename Fn>
__device__ inline void each_of_window(const Window& w, const Fn& fn) {
  const int all = w.rows * w.width * w.heads;
  for (int e = static_cast<int>(threadIdx.x); e < all;
       e += static_cast<int>(blockDim.x)) {
    fn(e / w.width / w.rows, e / w.width % w.rows, e % w.width);
  }
}

// A window of value(block, head, query, key), zero beyond the maps.
template <int kParts_, typename Value>
struct FromCells {
  static constexpr int kCount = kParts_;
  Value value;

  __device__ void fill(const MapBlock& block, const Window& w,
                       float* to) const {
    each_of_window(w, [&](int h, int row, int column) {
      to[w.at(row, column) + h] =
          w.inside(block, row, column)
              ? value(block, h, w.top + row, w.left + column)
              : 0.0f;
    });
  }
};

// Maps as they lie in memory.
template <typename E>
struct PlainCells {
  const E* data;
  __device__ float operator()(const MapBlock& block, int h, std::int64_t i,
                              std::int64_t j) const {
    return static_cast<float>(data[block.row(h, i) + j]);
  }
};

template <typename E>
using PlainWindow = FromCells<kParts<E>, PlainCells<E>>;

// Shared memory that leaves room for two blocks on sm_90, and what a block may
// have on sm_80 and later.
inline constexpr std::size_t kSharedOfTwo = 100 * 1024;
inline constexpr std::size_t kSharedOfOne = 160 * 1024;

// The widest shape whose bytes(shape) leave room for a second block, or the
// narrowest; its `columns` are 0 where that does not fit either.
template <typename Bytes>
ConvShape conv_shape(std::int64_t heads, std::int64_t kernel, Bytes&& bytes) {
  ConvShape s{static_cast<int>(heads), static_cast<int>(kernel), 32};
  if (heads > 128 || s.rows() < 4) return {s.heads, s.kernel, 0};
  while (s.columns > 8 && bytes(s) > kSharedOfTwo) s.columns /= 2;
  if (bytes(s) > kSharedOfOne) s.columns = 0;
  return s;
}

}  // namespace ea::cuda
