// Building blocks of the convolution along packed sequences: packed weights,
// blocks of rows with the rows that their taps read, and the register tile.
//
// A pass multiplies rows of `depth` channels by taps of shape [depth, cols].
// The forward has depth = in and cols = out, the pass for dx depth = out and
// cols = in. Channels are stored in cells of 32 bits (pairs-inl.h).
#pragma once

#include "kernels/conv1d.h"
#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/cpu/simd/tile-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// One channel per cell, as a float; bfloat16 is widened.
template <typename Type>
struct WideCells {
  using T = Type;
  using Cells = Floats;
  static constexpr bool kPairs = false;
  EA_INLINE static std::int64_t count(std::int64_t channels) {
    return channels;
  }
};

#if defined(__AVX512F__)
// Two bfloat16 channels per cell; an odd number is padded with a zero.
struct PairCells {
  using T = bfloat16;
  using Cells = Pairs;
  static constexpr bool kPairs = true;
  EA_INLINE static std::int64_t count(std::int64_t channels) {
    return (channels + 1) / 2;
  }
};
#endif

// Packs weight [out, in, taps] into panels of kPanel columns, each [taps, cells
// of depth, kPanel], with zeros after the last column. With `backward`, columns
// are input channels, depth is output channels, and the taps are reversed.
template <typename M>
void pack_taps(const typename M::T* weight, std::int64_t out, std::int64_t in,
               std::int64_t taps, bool backward, float* packed) {
  using T = typename M::T;
  const std::int64_t depth = M::count(backward ? out : in);
  const std::int64_t cols = backward ? in : out;
  const std::int64_t size = taps * depth * kPanel;
  const auto put = [=](float* to, std::int64_t j, std::int64_t d,
                       std::int64_t i, const T* value) {
    if constexpr (M::kPairs) {
      T* cell = reinterpret_cast<T*>(to + (j * depth + d / 2) * kPanel + i);
      __builtin_memcpy(cell + d % 2, value, sizeof(T));
    } else {
      to[(j * depth + d) * kPanel + i] = load_one(value);
    }
  };
  parallel_for(ceil_div(cols, kPanel), [&](std::int64_t panel) {
    float* to = packed + panel * size;
    const std::int64_t first = panel * kPanel;
    const std::int64_t count = cols - first < kPanel ? cols - first : kPanel;
    if (count < kPanel || M::kPairs) {
      __builtin_memset(to, 0, static_cast<std::size_t>(size) * 4);
    }
    if (backward) {
      for (std::int64_t o = 0; o < out; ++o) {
        const T* from = weight + (o * in + first) * taps;
        for (std::int64_t j = 0; j < taps; ++j) {
          for (std::int64_t i = 0; i < count; ++i) {
            put(to, taps - 1 - j, o, i, from + i * taps + j);
          }
        }
      }
    } else {
      for (std::int64_t i = 0; i < count; ++i) {
        const T* from = weight + (first + i) * in * taps;
        for (std::int64_t c = 0; c < in; ++c) {
          for (std::int64_t j = 0; j < taps; ++j) {
            put(to, j, c, i, from++);
          }
        }
      }
    }
  });
}

// Up to kTileRows rows of one sequence.
struct RowBlock {
  std::int64_t begin, end;  // rows of the sequence
  std::int64_t row;         // the block's first row in the batch
  std::int64_t rows;
};

// Partitions every sequence into blocks of nearly equal size and returns their
// number. If `block` is null, only counts them.
inline std::int64_t cut_rows(const Conv1dTaps& taps, RowBlock* block) {
  std::int64_t total = 0;
  for (std::int64_t b = 0; b < taps.sequences; ++b) {
    const std::int64_t begin = taps.offsets[b], end = taps.offsets[b + 1];
    const std::int64_t parts = ceil_div(end - begin, kTileRows);
    for (std::int64_t i = 0; block != nullptr && i < parts; ++i) {
      const std::int64_t row = (end - begin) * i / parts;
      const std::int64_t next = (end - begin) * (i + 1) / parts;
      *block++ = {begin, end, begin + row, next - row};
    }
    total += parts;
  }
  return total;
}

// Copies one row as cells.
template <typename M>
void copy_row(const typename M::T* from, std::int64_t depth, float* to) {
  if constexpr (M::kPairs) {
    copy_cells(from, depth, to);
  } else {
    for_vectors(depth, [&](std::int64_t c, auto part) {
      store(to + c, load(from + c, part), part);
    });
  }
}

// Finds the rows that the taps of a block read: `found` gets for each tap a
// matrix [rows, cells of depth], or null where all its rows lie outside the
// sequence. Rows are read in place if all lie inside the sequence and are cells
// already; otherwise they are copied to `copies` [taps, kTileRows, cells].
template <typename M>
void find_rows(const typename M::T* x, std::int64_t depth, std::int64_t count,
               const Conv1dTaps& taps, const RowBlock& block,
               const float** found, float* copies) {
  using T = typename M::T;
  const std::int64_t cells = M::count(depth);
  const std::int64_t low = block.row - taps.reach;
  const std::int64_t high = low + (count - 1) * taps.dilation + block.rows;
  const bool whole = M::kPairs ? depth % 2 == 0 : sizeof(T) == sizeof(float);
  if (whole && low >= block.begin && high <= block.end) {
    for (std::int64_t j = 0; j < count; ++j) {
      found[j] =
          reinterpret_cast<const float*>(x + (low + j * taps.dilation) * depth);
    }
    return;
  }
  for (std::int64_t j = 0; j < count; ++j) {
    const std::int64_t first = low + j * taps.dilation;
    found[j] = nullptr;
    if (first + block.rows <= block.begin || first >= block.end) continue;
    float* to = copies + j * kTileRows * cells;
    found[j] = to;
    for (std::int64_t i = 0; i < block.rows; ++i, to += cells) {
      const std::int64_t row = first + i;
      if (row >= block.begin && row < block.end) {
        copy_row<M>(x + row * depth, depth, to);
      } else {
        __builtin_memset(to, 0, static_cast<std::size_t>(cells) * 4);
      }
    }
  }
}

// Computes a tile of y, kRows rows of kVectors vectors (the last with `last`
// columns), over all taps and the whole depth (in cells) of one panel.
template <typename M, int kRows, int kVectors>
void conv_tile(const float* const* taps, std::int64_t count, std::int64_t depth,
               const float* panel, const typename M::T* bias, typename M::T* y,
               std::int64_t y_stride, Part last) {
  Vf sum[kRows][kVectors];
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    Vf start = set(0);
    if (bias != nullptr) {
      start = v + 1 < kVectors ? load(bias + v * kLanes)
                               : load(bias + v * kLanes, last);
    }
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) sum[i][v] = start;
  }
  // Addressing rows in threes from few pointers keeps addresses in registers.
  const std::int64_t three = 3 * depth;
  for (std::int64_t j = 0; j < count; ++j, panel += depth * kPanel) {
    const float* a = taps[j];
    if (a == nullptr) continue;
    const float* b = panel;
    for (std::int64_t k = 0; k < depth; ++k, ++a, b += kPanel) {
      Vf column[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) column[v] = load(b + v * kLanes);
#pragma GCC unroll 12
      for (int i = 0; i < kRows; ++i) {
        const Vf x = set(cell_at(a + i / 3 * three + i % 3 * depth));
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          sum[i][v] = M::Cells::add(sum[i][v], x, column[v]);
        }
      }
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      typename M::T* at = y + i * y_stride + v * kLanes;
      if (v + 1 < kVectors) {
        store(at, sum[i][v]);
      } else {
        store(at, sum[i][v], last);
      }
    }
  }
}

}  // namespace
}  // namespace ea::simd::EA_TARGET
