// Tiled matrix products over packed sequences: one block makes one tile of one
// head of one sequence, in one order of sums.
#pragma once

#include <type_traits>

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/map_blocks.cuh"
#include "kernels/cuda/parts.cuh"

namespace ea::cuda {

// C [rows, columns] = A [rows, depth] B [depth, columns]. A block takes a tile
// of kSide x kSide and walks the depth in steps of kDepth, which it brings to
// shared memory: (row of A, depth) and (column of B, depth), depth contiguous.
inline constexpr int kProductThreads = 128;
inline constexpr int kSide = 64, kDepth = 32;
inline constexpr int kSpan = 8;  // neighbours that a thread loads at once

// Strides for which the fragments of a warp meet no bank twice.
template <typename T>
inline constexpr int kStageStride = sizeof(T) == 2 ? kDepth + 8 : kDepth + 1;

// A matrix in memory as an operand. kAlongDepth: its rows run along the depth
// of the product (one row per row of A or column of B); else across it.
template <typename E, bool kAlong>
struct StoredOperand {
  static constexpr bool kAlongDepth = kAlong;
  static constexpr int kCount = kParts<E>;
  const E* data;
  std::int64_t stride;         // between rows
  std::int64_t rows, columns;  // beyond which it is 0

  __device__ void load(std::int64_t row, std::int64_t column,
                       float (&v)[kSpan]) const {
    const E* p = data + row * stride + column;
    const std::int64_t count = row < rows ? columns - column : 0;
    if (count >= kSpan && reinterpret_cast<std::uintptr_t>(p) % 16 == 0) {
#pragma unroll
      for (int i = 0; i < kSpan; i += kPack<E>) {
        float values[kPack<E>];
        unpack(*reinterpret_cast<const uint4*>(p + i), values);
#pragma unroll
        for (int k = 0; k < kPack<E>; ++k) v[i + k] = values[k];
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kSpan; ++i) {
      v[i] = i < count ? static_cast<float>(p[i]) : 0.0f;
    }
  }
};

template <typename T>
inline constexpr int kStage = kSide * kStageStride<T>;  // elements of a part

// Rows (or columns) first .. first + kSide of an operand, from depth on.
template <typename T, typename Operand>
__device__ inline void stage(const Operand& from, std::int64_t first,
                             std::int64_t depth, T* to) {
  constexpr int kStride = kStageStride<T>;
  for (int p = static_cast<int>(threadIdx.x); p < kSide * kDepth / kSpan;
       p += kProductThreads) {
    constexpr int kAcross =
        Operand::kAlongDepth ? kDepth / kSpan : kSide / kSpan;
    const int major = p / kAcross, minor = p % kAcross * kSpan;
    float v[kSpan];
    if constexpr (Operand::kAlongDepth) {
      from.load(first + major, depth + minor, v);
    } else {
      from.load(depth + major, first + minor, v);
    }
    T* at = Operand::kAlongDepth ? to + major * kStride + minor
                                 : to + minor * kStride + major;
    constexpr int kStep = Operand::kAlongDepth ? 1 : kStride;
    if constexpr (std::is_same_v<T, float>) {
#pragma unroll
      for (int i = 0; i < kSpan; ++i) at[i * kStep] = v[i];
    } else {
      std::uint32_t pairs[kSpan / 2][Operand::kCount];
#pragma unroll
      for (int i = 0; i < kSpan / 2; ++i) {
        split_pair(v[2 * i], v[2 * i + 1], pairs[i]);
      }
#pragma unroll
      for (int q = 0; q < Operand::kCount; ++q) {
        T* const part = at + q * kStage<T>;
        if constexpr (Operand::kAlongDepth) {
          *reinterpret_cast<uint4*>(part) =
              uint4{pairs[0][q], pairs[1][q], pairs[2][q], pairs[3][q]};
        } else {
#pragma unroll
          for (int i = 0; i < kSpan; ++i) {
            part[i * kStep].bits =
                static_cast<std::uint16_t>(pairs[i / 2][q] >> (i % 2 * 16));
          }
        }
      }
    }
  }
}

// The share of a thread in a tile of float32: rows y + 8 i, columns x + 16 k.
struct PlainShare {
  static constexpr int kRows = 8, kColumns = 4;
  float sums[kRows][kColumns] = {};
  int x = static_cast<int>(threadIdx.x) % 16;
  int y = static_cast<int>(threadIdx.x) / 16;

  template <int kA, int kB>
  __device__ void add(const float* a, const float* b, int rows, int columns) {
    if (y >= rows || x >= columns) return;
    for (int k = 0; k < kDepth; ++k) {
      float right[kColumns];
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        right[j] = b[(x + 16 * j) * kStageStride<float> + k];
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        if (y + 8 * i >= rows) break;
        const float left = a[(y + 8 * i) * kStageStride<float> + k];
#pragma unroll
        for (int j = 0; j < kColumns; ++j) sums[i][j] += left * right[j];
      }
    }
  }

  template <typename Fn>
  __device__ void each(const Fn& fn) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) fn(y + 8 * i, x + 16 * j, sums[i][j]);
    }
  }
  __device__ void scale_rows(const float* factors) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) sums[i][j] *= factors[y + 8 * i];
    }
  }
};

// ... of bfloat16: a warp has a quarter, 32 x 32, in 2 x 4 fragments.
struct TensorShare {
  static constexpr int kRows = 2, kColumns = 4;
  FragmentC sums[kRows][kColumns];
  int lane = static_cast<int>(threadIdx.x) % kWarp;
  int row = static_cast<int>(threadIdx.x) / kWarp / 2 * 32;
  int column = static_cast<int>(threadIdx.x) / kWarp % 2 * 32;

  // Fragments beyond `rows` and `columns` are left out, by the whole warp.
  template <int kA, int kB>
  __device__ void add(const bfloat16* a, const bfloat16* b, int rows,
                      int columns) {
    constexpr int kStride = kStageStride<bfloat16>;
    if (row >= rows || column >= columns) return;
#pragma unroll
    for (int k = 0; k < kDepth; k += kTileK) {
      FragmentB right[kB][kColumns];
#pragma unroll
      for (int q = 0; q < kB; ++q) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          right[q][j] = load_b_transposed(
              b + q * kStage<bfloat16> + (column + kTileN * j) * kStride + k,
              kStride, lane);
        }
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        if (row + kTileM * i >= rows) break;
#pragma unroll
        for (int p = 0; p < kA; ++p) {
          const FragmentA left = load_a(
              a + p * kStage<bfloat16> + (row + kTileM * i) * kStride + k,
              kStride, lane);
#pragma unroll
          for (int q = 0; q < kB; ++q) {
            if (!parts_meet(p, q)) continue;
#pragma unroll
            for (int j = 0; j < kColumns; ++j) {
              if (column + kTileN * j < columns)
                mma(sums[i][j], left, right[q][j]);
            }
          }
        }
      }
    }
  }

  template <typename Fn>
  __device__ void each(const Fn& fn) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          fn(row + kTileM * i + row_of_c(lane, c),
             column + kTileN * j + column_of_c(lane, c), sums[i][j].c[c]);
        }
      }
    }
  }
  __device__ void scale_rows(const float* factors) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          sums[i][j].c[c] *= factors[row + kTileM * i + row_of_c(lane, c)];
        }
      }
    }
  }
};

template <typename T>
using Share =
    std::conditional_t<std::is_same_v<T, float>, PlainShare, TensorShare>;

// Adds to the shares of all threads rows `row`.. of a times columns `column`..
// of b, of which `rows` and `columns` are wanted. left and right: shared
// memory, free again when the call returns.
template <typename T, typename A, typename B>
__device__ inline void add_product(const A& a, std::int64_t row, const B& b,
                                   std::int64_t column, std::int64_t depth,
                                   int rows, int columns, T* left, T* right,
                                   Share<T>& share) {
  for (std::int64_t k = 0; k < depth; k += kDepth) {
    stage(a, row, k, left);
    stage(b, column, k, right);
    __syncthreads();
    share.template add<A::kCount, B::kCount>(left, right, rows, columns);
    __syncthreads();
  }
}

// How many of n things lie in a tile.
__device__ inline int of_side(std::int64_t n) {
  return static_cast<int>(n < kSide ? n : kSide);
}

struct ProductSize {
  std::int64_t rows, columns, depth;

  EA_HOST_DEVICE std::int64_t across() const {
    return (columns + kSide - 1) / kSide;
  }
  EA_HOST_DEVICE std::int64_t tiles() const {
    return (rows + kSide - 1) / kSide * across();
  }
};

// Form: size(queries, keys), the operands a(at, h) and b(at, h), and
// store(at, h, row, column, sum).
template <typename T, typename Form>
__global__ void __launch_bounds__(kProductThreads)
    product_kernel(MapBlocks blocks, Form form) {
  using A = decltype(form.a(MapBlock{}, 0));
  using B = decltype(form.b(MapBlock{}, 0));
  constexpr bool kPlain = std::is_same_v<T, float>;
  constexpr int kA = kPlain ? 1 : A::kCount, kB = kPlain ? 1 : B::kCount;
  EA_SHARED(T, left, kA * kStage<T>);
  EA_SHARED(T, right, kB * kStage<T>);
  const MapBlock at = blocks.find(blockIdx.x);
  const ProductSize size = form.size(at.queries, at.keys);
  const std::int64_t h = at.number / size.tiles();
  const std::int64_t tile = at.number % size.tiles();
  const std::int64_t row = tile / size.across() * kSide;
  const std::int64_t column = tile % size.across() * kSide;
  const A a = form.a(at, h);
  const B b = form.b(at, h);
  const int rows = of_side(size.rows - row);
  const int columns = of_side(size.columns - column);
  Share<T> share;
  add_product(a, row, b, column, size.depth, rows, columns, left, right, share);
  share.each([&](int i, int j, float sum) {
    if (i < rows && j < columns) form.store(at, h, row + i, column + j, sum);
  });
}

template <typename T, typename Form>
void run_products(const MapLayout& layout, const Form& form) {
  for_map_blocks(
      layout,
      [&](std::int64_t queries, std::int64_t keys) {
        return layout.heads * form.size(queries, keys).tiles();
      },
      [&](const MapBlocks& blocks, unsigned count) {
        launch(current_stream(), count, kProductThreads, 0,
               product_kernel<T, Form>, blocks, form);
      });
}

}  // namespace ea::cuda
