// Products of fused attention: operands and computed maps are float32, or pairs
// of bfloat16 whose products the processor accumulates itself, one vector or
// one tile at a time.
#pragma once

#include "kernels/cpu/simd/amx-inl.h"
#include "kernels/cpu/simd/factors-inl.h"
#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/fused_attention.h"

namespace ea::simd::EA_TARGET {
namespace {

// Returns the row stride of a map in scratch. Rows of bfloat16 are stored in
// pairs; an odd number of cells is padded with a zero.
EA_INLINE std::int64_t map_stride(const float*, std::int64_t cols) {
  return cols;
}
EA_INLINE std::int64_t map_stride(const bfloat16*, std::int64_t cols) {
  return cols + cols % 2;
}

// Products in float32; bfloat16 operands are widened.
//
// This struct and PairProducts pack the right factor of a product, given as is
// or stored transposed. They make left factors of an operand, of a map [rows,
// cols] in scratch, and of such a map transposed. The transposed factor of a
// float map may overwrite the map; the other factors use `memory`. A thread
// that multiplies holds a Setup.
template <typename Type>
struct FloatProducts {
  using T = Type;
  using Cells = Floats;
  using Window = Floats;  // cells of the convolution in forward
  using Taps = Floats;    // and in backward
  using Map = float;      // type of probabilities in products
  struct Setup {};
  static constexpr std::int64_t kRows = kTileRows;  // preferred rows per block
  static constexpr std::int64_t kStepRows = 12;     // rows per step of a strip

  EA_INLINE static std::int64_t cells(std::int64_t depth) { return depth; }
  // Distance of rows of probabilities, at most the distance of their logits.
  EA_INLINE static std::int64_t map_cells(std::int64_t n) { return n; }

  static void pack(Rows<const T> b, std::int64_t depth, std::int64_t cols,
                   float* packed) {
    simd::EA_TARGET::pack(b.data, b.stride, depth, cols, packed);
  }
  static void pack_transposed(Rows<const T> b, std::int64_t depth,
                              std::int64_t cols, float* packed) {
    simd::EA_TARGET::pack_transposed(b.data, b.stride, depth, cols, packed);
  }
  EA_INLINE static Factor left(Rows<const T> a, std::int64_t rows,
                               std::int64_t cols, float* memory) {
    return factor(a.data, a.stride, rows, cols, memory);
  }
  EA_INLINE static Factor left(const float* map, std::int64_t,
                               std::int64_t cols, float*) {
    return {map, cols, 1};
  }
  EA_INLINE static Factor left_transposed(float* map, std::int64_t,
                                          std::int64_t cols, float*) {
    return {map, 1, cols};
  }
};

#if defined(__AVX512F__)
struct PairProducts {
  using T = bfloat16;
  using Cells = Pairs;
  using Window = Floats;
  using Taps = Pairs;
  using Map = bfloat16;
  struct Setup {};
  static constexpr std::int64_t kRows = kTileRows;
  static constexpr std::int64_t kStepRows = 12;

  EA_INLINE static std::int64_t cells(std::int64_t depth) {
    return (depth + 1) / 2;
  }
  EA_INLINE static std::int64_t map_cells(std::int64_t n) { return cells(n); }

  // Packs rows in pairs; an odd number of rows is padded with a row of zeros.
  static void pack(Rows<const T> b, std::int64_t depth, std::int64_t cols,
                   float* packed) {
    for (std::int64_t col = 0; col < cols; col += kPanel) {
      for (std::int64_t k = 0; k < depth; k += 2) {
        const T* const row = b.data + k * b.stride + col;
        for (int v = 0; v < kPanel; v += kLanes) {
          const std::int64_t left = cols - col - v;
          if (left > 0) {
            const Part part(left < kLanes ? left : kLanes);
            const Vf second =
                k + 1 < depth ? load(row + b.stride + v, part) : set(0.0f);
            store(packed, pair_of(load(row + v, part), second));
          }
          packed += kLanes;
        }
      }
    }
  }
  static void pack_transposed(Rows<const T> b, std::int64_t depth,
                              std::int64_t cols, float* packed) {
    const Scratch copy(
        in_pairs(b.stride, depth) ? 0 : cols * cells(depth) * sizeof(float));
    const Factor turned = left(b, cols, depth, copy.as<float>());
    simd::EA_TARGET::pack_transposed(turned.data, turned.row, cells(depth),
                                     cols, packed);
  }
  EA_INLINE static Factor left(Rows<const T> a, std::int64_t rows,
                               std::int64_t cols, float* memory) {
    return pair_rows(a.data, a.stride, rows, cols, memory);
  }
  static Factor left(const float* map, std::int64_t rows, std::int64_t cols,
                     float* memory) {
    const std::int64_t stride = cells(cols);
    for (std::int64_t i = 0; i < rows; ++i) {
      T* const row = reinterpret_cast<T*>(memory + i * stride);
      for_vectors(cols, [&](std::int64_t j, auto part) {
        store_factor(row + j, load(map + i * cols + j, part), part);
      });
      if (cols % 2 != 0) store_one(row + cols, 0.0f);
    }
    return {memory, stride, 1};
  }
  static Factor left_transposed(float* map, std::int64_t rows,
                                std::int64_t cols, float*) {
    for (std::int64_t i = 0; i < rows; i += 2) {
      const float* const from = map + i * cols;
      float* const to = map + i / 2 * cols;
      for_vectors(cols, [&](std::int64_t j, auto part) {
        const Vf second =
            i + 1 < rows ? load(from + cols + j, part) : set(0.0f);
        store(to + j, rounded_pair(load(from + j, part), second), part);
      });
    }
    return {map, 1, cols};
  }
  // Overloads for maps of bfloat16, whose rows are map_stride() apart.
  EA_INLINE static Factor left(const T* map, std::int64_t, std::int64_t cols,
                               float*) {
    return {reinterpret_cast<const float*>(map), cells(cols), 1};
  }
  static Factor left_transposed(const T* map, std::int64_t rows,
                                std::int64_t cols, float* memory) {
    const std::int64_t stride = map_stride(map, cols);
    for (std::int64_t i = 0; i < rows; i += 2) {
      const T* const from = map + i * stride;
      for_vectors(cols, [&](std::int64_t j, auto part) {
        const Vf second =
            i + 1 < rows ? load(from + stride + j, part) : set(0.0f);
        store(memory + i / 2 * cols + j, pair_of(load(from + j, part), second),
              part);
      });
    }
    return {memory, 1, cols};
  }
};

struct TileProducts : PairProducts {
  using Cells = Tiles;
  using Window = Tiles;
  using Taps = Tiles;
  using Setup = TileSetup;
  static constexpr std::int64_t kRows = 2 * kLanes;
  static constexpr std::int64_t kStepRows = kLanes;

  EA_INLINE static std::int64_t map_cells(std::int64_t n) {
    const std::int64_t whole = whole_lines(cells(n));
    return whole <= n ? whole : cells(n);
  }
};

// Returns whether the processor multiplies tiles of pairs. Requires
// takes_pairs().
bool takes_tiles() {
  return has_amx_bf16() && enabled(FastPath::bfloat16_tiles);
}
#endif

}  // namespace
}  // namespace ea::simd::EA_TARGET
