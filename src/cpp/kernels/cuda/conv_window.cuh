// Windows of all heads' maps in shared memory, with a halo for the convolution
// over heads, and their sizes.
#pragma once

#include "kernels/cuda/map_blocks.cuh"
#include "kernels/cuda/parts.cuh"
#include "kernels/cuda/shared_limits.h"
#include "kernels/map_conv.h"

namespace ea::cuda {

inline constexpr int kConvThreads = 256;
// Heads that a thread loads into a window at a time.
inline constexpr int kHeadGroup = 8;

// Output of a block: `rows` x `columns` cells of every head, computed from a
// window that also has the halo.
struct ConvShape {
  int heads, kernel, rows, columns;

  EA_HOST_DEVICE int radius() const { return (kernel - 1) / 2; }
  EA_HOST_DEVICE int height() const { return rows + 2 * radius(); }
  EA_HOST_DEVICE int width() const { return columns + 2 * radius(); }
  EA_HOST_DEVICE int taps() const { return kernel * kernel; }
  // Number of tiles of 16 heads.
  EA_HOST_DEVICE int head_tiles() const {
    return (heads + kTileM - 1) / kTileM;
  }
  // Cells of the window, and of its part inside the halo.
  EA_HOST_DEVICE int window() const { return height() * width(); }
  EA_HOST_DEVICE int results() const { return rows * columns; }
};

// A rectangle of cells of one sequence's maps, all heads. It may extend beyond
// the maps.
struct Window {
  int top, left, rows, width, heads;

  __device__ bool inside(const MapBlock& block, int row, int column) const {
    return top + row >= 0 && top + row < block.queries && left + column >= 0 &&
           left + column < block.keys;
  }
};

// Divides many numbers by the same d, at least 2. With m = ceil(2^32 / d), n m
// / 2^32 is less than n / d + n / 2^32, so its integer part is that of n / d as
// long as n d < 2^32.
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

// Cells of a window in shared memory. float: [cell, head].
template <typename T>
struct WindowCells {
  float* data;
  int heads;

  EA_HOST_DEVICE static std::size_t bytes(const ConvShape& s, int cells) {
    return sizeof(float) * static_cast<std::size_t>(cells * s.heads);
  }
  __device__ WindowCells(void* memory, const ConvShape& s, int)
      : data(static_cast<float*>(memory)), heads(s.heads) {}
  __device__ int groups() const {
    return (heads + kHeadGroup - 1) / kHeadGroup;
  }
  __device__ void clear() const {}
  // Stores heads h..; v must be 0 for heads beyond the last.
  template <int>
  __device__ void put(int cell, int h, const float (&v)[kHeadGroup]) const {
#pragma unroll
    for (int k = 0; k < kHeadGroup; ++k) {
      if (h + k < heads) data[cell * heads + h + k] = v[k];
    }
  }
  template <int>
  __device__ float get(int cell, int h) const {
    return data[cell * heads + h];
  }
};

// bfloat16: kFloatParts arrays [cell, heads in tiles of 16], for products with
// the heads as depth or, transposed, with the cells. In every second group of
// four cells the halves of a tile are swapped, so that eight consecutive cells
// have no bank conflicts. Zero padding after the last cell: a product reads up
// to eight cells past the end of a narrow window.
template <>
struct WindowCells<bfloat16> {
  static constexpr int kBeyond = 8;
  bfloat16* data;
  int heads, cells;  // heads: in whole tiles

  EA_HOST_DEVICE static std::size_t bytes(const ConvShape& s, int cells) {
    return sizeof(bfloat16) *
           static_cast<std::size_t>(kFloatParts * (cells + kBeyond) *
                                    s.head_tiles() * kTileM);
  }
  __device__ WindowCells(void* memory, const ConvShape& s, int cells_)
      : data(static_cast<bfloat16*>(memory)),
        heads(s.head_tiles() * kTileM),
        cells(cells_) {}
  __device__ int groups() const { return heads / kHeadGroup; }
  // Elements of one part.
  __device__ int elements() const { return (cells + kBeyond) * heads; }
  __device__ int at(int cell, int h) const {
    return cell * heads + (h ^ (cell & 4) << 1);
  }
  // Returns the start of eight heads of a cell.
  __device__ bfloat16* row(int part, int cell, int h) const {
    return data + part * elements() + at(cell, h);
  }
  __device__ void clear() const {
    for (int e = static_cast<int>(threadIdx.x);
         e < kFloatParts * kBeyond * groups();
         e += static_cast<int>(blockDim.x)) {
      const int part = e / (kBeyond * groups());
      const int cell = e / groups() % kBeyond, group = e % groups();
      *reinterpret_cast<uint4*>(row(part, cells + cell, group * kHeadGroup)) =
          uint4{0u, 0u, 0u, 0u};
    }
  }
  template <int kCount>
  __device__ void put(int cell, int h, const float (&v)[kHeadGroup]) const {
    std::uint32_t words[kHeadGroup / 2][kCount];
#pragma unroll
    for (int k = 0; k < kHeadGroup / 2; ++k) {
      split_pair(v[2 * k], v[2 * k + 1], words[k]);
    }
#pragma unroll
    for (int q = 0; q < kCount; ++q) {
      *reinterpret_cast<uint4*>(row(q, cell, h)) =
          uint4{words[0][q], words[1][q], words[2][q], words[3][q]};
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
};

// Index of cell (i, j) of head h + k; for heads beyond the last, the last
// head's cell.
class CellOfHeads {
 public:
  __device__ CellOfHeads(const MapBlock& at, int h, int i, int j)
      : first_(static_cast<std::uint64_t>(at.row(h, i) + j)),
        of_head_(static_cast<unsigned>(at.queries) *
                 static_cast<unsigned>(at.keys)),
        last_(static_cast<unsigned>(at.heads) - 1 - static_cast<unsigned>(h)) {}
  __device__ std::uint64_t operator()(unsigned k) const {
    return first_ + std::uint64_t{step(k)} * of_head_;
  }
  __device__ unsigned step(unsigned k) const { return k < last_ ? k : last_; }

 private:
  std::uint64_t first_;
  unsigned of_head_, last_;
};

// Fills a window by value.load(block, head, query, key, values of some heads),
// with zeros outside the maps. A thread loads one cell of some heads at a time,
// the next thread the next cell; all its loads are issued before the first is
// used.
template <int kParts_, typename Value>
struct FromCells {
  static constexpr int kCount = kParts_;
  Value value;

  template <typename Cells>
  __device__ void fill(const MapBlock& block, const Window& w,
                       const Cells& to) const {
    const int cells = w.rows * w.width, all = cells * to.groups();
    const Divisor width(w.width), of_group(cells);
#pragma unroll 1
    for (int e = static_cast<int>(threadIdx.x); e < all;
         e += static_cast<int>(blockDim.x)) {
      const int group = of_group.into(e), cell = e - group * cells;
      const int row = width.into(cell), column = cell - row * w.width;
      const int h = group * kHeadGroup;
      float v[kHeadGroup] = {};
      if (h < w.heads && w.inside(block, row, column)) {
        value.load(block, h, w.top + row, w.left + column, v);
#pragma unroll
        for (int k = 0; k < kHeadGroup; ++k) {
          if (h + k >= w.heads) v[k] = 0.0f;
        }
      }
      to.template put<kCount>(cell, h, v);
    }
  }
};

// Maps as stored in memory, 0 where no cell exists. Cells that `shift` moves in
// count as missing.
template <typename E>
struct PlainCells {
  const E* data;
  MapShift shift = {};

  template <int N>
  __device__ void load(const MapBlock& at, int h, int i, int j,
                       float (&v)[N]) const {
    const CellOfHeads cell(at, h, i, j);
    const bool there = i >= shift.down && j >= shift.right && at.exists(i, j);
#pragma unroll
    for (int k = 0; k < N; ++k) v[k] = static_cast<float>(data[cell(k)]);
#pragma unroll
    for (int k = 0; k < N; ++k) v[k] = there ? v[k] : 0.0f;
  }
};

template <typename E>
using PlainWindow = FromCells<kParts<E>, PlainCells<E>>;

// Throws unless 32-bit indices can count the cells of one head.
inline void check_heads(const MapLayout& layout) {
  for (std::int64_t b = 0; b < layout.sequences; ++b) {
    EA_CHECK(
        layout.n_q(b) * layout.n_k(b) < (std::int64_t{1} << 31), "launch",
        "sequence {} has maps of {} x {} cells; the convolution over heads "
        "takes at most 2^31 - 1",
        b, layout.n_q(b), layout.n_k(b));
  }
}

// Returns the widest shape for which two blocks of bytes(shape) fit on a
// multiprocessor, or the narrowest. `columns` is 0 if that does not fit one
// block.
template <typename Bytes>
ConvShape conv_shape(std::int64_t heads, std::int64_t kernel, int rows,
                     const SharedLimits& limits, Bytes&& bytes) {
  ConvShape s{static_cast<int>(heads), static_cast<int>(kernel), rows, 32};
  if (heads > 128 || kernel > 32) s.columns = 0;
  while (s.columns > 8 && bytes(s) > limits.of_two) s.columns /= 2;
  if (bytes(s) > limits.block) s.columns = 0;
  return s;
}

}  // namespace ea::cuda
