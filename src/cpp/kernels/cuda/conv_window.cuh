// Windows of all heads' maps in shared memory, with a halo for the convolution
// over heads, and how large they are.
#pragma once

#include "kernels/cuda/map_blocks.cuh"
#include "kernels/cuda/parts.cuh"
#include "kernels/cuda/shared_limits.h"
#include "kernels/map_conv.h"

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
  // Floats between cells of a window: heads in pairs, each on 8 bytes.
  EA_HOST_DEVICE int stride() const { return heads + heads % 2; }
  // Floats of shared memory.
  EA_HOST_DEVICE int window() const { return kTileM * width() * stride(); }
  EA_HOST_DEVICE int results() const { return rows() * columns * stride(); }
};

// A rectangle of cells of the maps of one sequence, all heads, in shared
// memory: [rows, width, stride of heads]. It may reach beyond the maps.
struct Window {
  std::int64_t top, left;
  int rows, width, heads;

  __device__ int at(int row, int column) const {
    return (row * width + column) * (heads + heads % 2);
  }
  __device__ bool inside(const MapBlock& block, int row, int column) const {
    return top + row >= 0 && top + row < block.queries && left + column >= 0 &&
           left + column < block.keys;
  }
};

// Divides by the same number many times. With m = ceil(2^32 / d), n m / 2^32 is
// less than n / d + n / 2^32, so that its whole part is that of n / d as long
// as n d < 2^32. d: at least 2.
class Divisor {
 public:
  __device__ explicit Divisor(int d)
      : inverse_(0xffffffffu / static_cast<unsigned>(d) + 1) {}
  __device__ int into(int n) const {
    return static_cast<int>(__umulhi(static_cast<unsigned>(n), inverse_));
  }

 private:
  unsigned inverse_;
};

// Calls fn(head, row, column) for all cells of a window, neighbours in a row by
// neighbouring threads.
template <typename Fn>
__device__ inline void each_of_window(const Window& w, const Fn& fn) {
  const int all = w.rows * w.width * w.heads;
  const Divisor width(w.width), rows(w.rows);
  for (int e = static_cast<int>(threadIdx.x); e < all;
       e += static_cast<int>(blockDim.x)) {
    const int line = width.into(e), head = rows.into(line);
    fn(head, line - head * w.rows, e - line * w.width);
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

// Maps as they lie in memory, 0 where no cell exists. Cells that `shift` moves
// in count as missing.
template <typename E>
struct PlainCells {
  const E* data;
  MapShift shift = {};
  __device__ float operator()(const MapBlock& block, int h, std::int64_t i,
                              std::int64_t j) const {
    const bool there =
        i >= shift.down && j >= shift.right && block.exists(i, j);
    return there ? static_cast<float>(data[block.row(h, i) + j]) : 0.0f;
  }
};

template <typename E>
using PlainWindow = FromCells<kParts<E>, PlainCells<E>>;

// The widest shape whose bytes(shape) leave room for a second block on the
// multiprocessor, or the narrowest; its `columns` are 0 where that does not fit
// one block either.
template <typename Bytes>
ConvShape conv_shape(std::int64_t heads, std::int64_t kernel,
                     const SharedLimits& limits, Bytes&& bytes) {
  ConvShape s{static_cast<int>(heads), static_cast<int>(kernel), 32};
  if (heads > 128 || s.rows() < 4) return {s.heads, s.kernel, 0};
  while (s.columns > 8 && bytes(s) > limits.of_two) s.columns /= 2;
  if (bytes(s) > limits.block) s.columns = 0;
  return s;
}

}  // namespace ea::cuda
