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
  // Cells of the window, and inside its halo.
  EA_HOST_DEVICE int window() const { return kTileM * width(); }
  EA_HOST_DEVICE int results() const { return rows() * columns; }
};

// A rectangle of cells of the maps of one sequence, all heads. It may reach
// beyond the maps.
struct Window {
  int top, left, rows, width, heads;

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
#pragma unroll 4
  for (int e = static_cast<int>(threadIdx.x); e < all;
       e += static_cast<int>(blockDim.x)) {
    const int line = width.into(e), head = rows.into(line);
    fn(head, line - head * w.rows, e - line * w.width);
  }
}

// The cells of a window in shared memory. float: [cell, head].
template <typename T>
struct WindowCells {
  float* data;
  int width, heads;

  EA_HOST_DEVICE static std::size_t bytes(const ConvShape& s, int cells) {
    return sizeof(float) * static_cast<std::size_t>(cells * s.heads);
  }
  __device__ WindowCells(void* memory, const ConvShape& s, int width_, int)
      : data(static_cast<float*>(memory)), width(width_), heads(s.heads) {}
  __device__ void clear() const {}
  template <int>
  __device__ void put(int row, int column, int h, float value) const {
    data[(row * width + column) * heads + h] = value;
  }
  template <int>
  __device__ float get(int cell, int h) const {
    return data[cell * heads + h];
  }
};

// bfloat16: kFloatParts times [cell, heads in tiles of 16]: for products whose
// depth are heads, and, turned, cells. The halves of a tile of every second
// four cells are exchanged, so that eight cells in a row meet no bank twice.
// Behind the last cell lies one of zeros.
template <>
struct WindowCells<bfloat16> {
  bfloat16* data;
  int width, heads, cells;  // heads: of all tiles

  EA_HOST_DEVICE static std::size_t bytes(const ConvShape& s, int cells) {
    return sizeof(bfloat16) *
           static_cast<std::size_t>(kFloatParts * (cells + 1) * s.head_tiles() *
                                    kTileM);
  }
  __device__ WindowCells(void* memory, const ConvShape& s, int width_,
                         int cells_)
      : data(static_cast<bfloat16*>(memory)),
        width(width_),
        heads(s.head_tiles() * kTileM),
        cells(cells_) {}
  // Of one part.
  __device__ int elements() const { return (cells + 1) * heads; }
  __device__ int at(int cell, int h) const {
    return cell * heads + (h ^ (cell & 4) << 1);
  }
  // Heads beyond the last stay 0: nothing else is put there.
  __device__ void clear() const {
    auto* const words = reinterpret_cast<uint4*>(data);
    for (int e = static_cast<int>(threadIdx.x);
         e < kFloatParts * elements() / kPack<bfloat16>; e += kConvThreads) {
      words[e] = uint4{0u, 0u, 0u, 0u};
    }
  }
  template <int kCount>
  __device__ void put(int row, int column, int h, float value) const {
    bfloat16* const to = data + at(row * width + column, h);
    std::uint32_t parts[kCount];
    split_pair(value, 0.0f, parts);
#pragma unroll
    for (int q = 0; q < kCount; ++q) {
      to[q * elements()].bits = static_cast<std::uint16_t>(parts[q]);
    }
  }
  template <int kCount>
  __device__ float get(int cell, int h) const {
    float sum = 0.0f;
#pragma unroll
    for (int q = kCount - 1; q >= 0; --q) {
      sum += static_cast<float>(data[q * elements() + at(cell, h)]);
    }
    return sum;
  }
  // Where eight heads of a cell begin, or zeros.
  __device__ const bfloat16* row(int part, bool there, int cell, int h) const {
    return data + part * elements() + at(there ? cell : cells, h);
  }
};

// A window of value(block, head, query, key), zero beyond the maps.
template <int kParts_, typename Value>
struct FromCells {
  static constexpr int kCount = kParts_;
  Value value;

  template <typename Cells>
  __device__ void fill(const MapBlock& block, const Window& w,
                       const Cells& to) const {
    each_of_window(w, [&](int h, int row, int column) {
      // Beyond the maps their nearest cell is read in vain: without a branch
      // the next reads need not wait for this.
      const float near = value(block, h, within(w.top + row, block.queries),
                               within(w.left + column, block.keys));
      to.template put<kCount>(row, column, h,
                              w.inside(block, row, column) ? near : 0.0f);
    });
  }

 private:
  __device__ static int within(int i, int count) {
    return i < 0 ? 0 : i < count ? i : count - 1;
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
