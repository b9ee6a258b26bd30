// Square tiles of one head's maps in shared memory: logits, read or made, and
// what fused attention makes of them cell by cell and in products.
#pragma once

#include "kernels/cuda/attention_forms.cuh"
#include "kernels/cuda/dropped.cuh"
#include "kernels/cuda/evolve_numbers.h"
#include "kernels/cuda/fused_rows.cuh"

namespace ea::cuda {

// A tile of kSide x kSide cells, of which rows x columns lie in the map.
struct SquareTile {
  std::int64_t row, column;
  int rows, columns;

  __device__ SquareTile(const MapBlock& at, std::int64_t row_,
                        std::int64_t column_)
      : row(row_),
        column(column_),
        rows(of_side(at.queries - row_)),
        columns(of_side(at.keys - column_)) {}

  __device__ bool inside(int i, int j) const { return i < rows && j < columns; }
  // Whether a cell lies in the map and exists.
  __device__ bool exists(const MapBlock& at, int i, int j) const {
    return inside(i, j) && at.exists(row + i, column + j);
  }
};

inline constexpr int kSquareStride = kSide + 1;
inline constexpr int kSquare = kSide * kSquareStride;  // floats

// A thread's cells of a tile: four neighbours in each of eight rows. The 16
// threads of a row are neighbours too.
inline constexpr int kFour = 4;
inline constexpr int kFours = kSide * kSide / kFour / kProductThreads;
inline constexpr int kOfRow = kSide / kFour;

// Calls fn(i, row, column): group i of the thread begins there.
template <typename Fn>
__device__ inline void each_four(const Fn& fn) {
  const int me = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < kFours; ++i) {
    fn(i, me / kOfRow + i * (kProductThreads / kOfRow), me % kOfRow * kFour);
  }
}

// Over the 16 threads of a row; all of them get the result.
template <typename Op>
__device__ inline float over_row(float value, Op op) {
#pragma unroll
  for (int distance = kOfRow / 2; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

// A tile as an operand: its rows lie along the depth, or across it.
template <bool kAlong>
struct TileOperand {
  static constexpr bool kAlongDepth = kAlong;
  static constexpr int kCount = kFloatParts;
  const float* tile;

  __device__ void load(std::int64_t row, std::int64_t column,
                       float (&v)[kSpan]) const {
#pragma unroll
    for (int i = 0; i < kSpan; ++i) {
      v[i] = tile[row * kSquareStride + column + i];
    }
  }
};

// Shared memory of the kernels on tiles: a square of logits, the stages of
// products, and in the backward a second square.
template <typename T>
struct TileSpace {
  static constexpr int kLeft =
      std::is_same_v<T, float> ? 1 : kFloatParts;  // parts
  static constexpr std::size_t kOneSquare =
      kSquare * sizeof(float) + (kLeft + 1) * kStage<T> * sizeof(T);
  static constexpr std::size_t kTwoSquares =
      kOneSquare + kSquare * sizeof(float);
  // Blocks on a multiprocessor at a time that registers are kept for; on sm_90
  // the shared memory holds as many.
  static constexpr int kOneSquareBlocks = 3;
  static constexpr int kTwoSquareBlocks = 2;
  float* logits;
  T* left;
  T* right;
  float* other;

  __device__ explicit TileSpace(float* memory)
      : logits(memory),
        left(reinterpret_cast<T*>(memory + kSquare)),
        right(left + kLeft * kStage<T>),
        other(reinterpret_cast<float*>(right + kStage<T>)) {}

  // Adds a product to a share.
  template <typename A, typename B>
  __device__ void add(const A& a, std::int64_t row, const B& b,
                      std::int64_t column, std::int64_t depth, int rows,
                      int columns, Share<T>& share) const {
    add_product(a, row, b, column, depth, rows, columns, left, right, share);
  }
  // Rows of queries by rows of keys into a square; a thread's own groups can
  // be read when it returns.
  __device__ void multiply(const MapBlock& at, std::int64_t h,
                           const SquareTile& tile, const TokenRows<T>& q,
                           const TokenRows<T>& k, float* to) const {
    Share<T> share;
    add(q.template operand<true>(at.first_query, at.queries, h), tile.row,
        k.template operand<true>(at.first_key, at.keys, h), tile.column,
        q.width, tile.rows, tile.columns, share);
    share.each(
        [&](int i, int j, float sum) { to[i * kSquareStride + j] = sum; });
    __syncthreads();
  }
};

// `blocks` of so many bytes at a time: 1 KB more each, 256 bytes of them
// static, in the 228 KB of a multiprocessor of sm_90; one in the 99 KB that
// every GPU since sm_80 gives a block.
constexpr bool tiles_fit(int blocks, std::size_t bytes) {
  return bytes + 256 <= 99 * 1024 &&
         static_cast<std::size_t>(blocks) * (bytes + 256 + 1024) <= 228 * 1024;
}
template <typename T>
constexpr bool kTilesFit =
    tiles_fit(TileSpace<T>::kOneSquareBlocks, TileSpace<T>::kOneSquare) &&
    tiles_fit(TileSpace<T>::kTwoSquareBlocks, TileSpace<T>::kTwoSquares);
static_assert(kTilesFit<float> && kTilesFit<bfloat16>);

// Logits from memory. fill: a thread can read its own groups when it returns;
// cells beyond the map are 0.
template <typename T>
struct StoredLogits {
  const T* logits;

  __device__ void fill(const MapBlock& at, std::int64_t h,
                       const SquareTile& tile, const TileSpace<T>& space,
                       bool) const {
    const T* const from = logits + at.row(h, tile.row) + tile.column;
    each_four([&](int, int row, int column) {
#pragma unroll
      for (int k = 0; k < kFour; ++k) {
        space.logits[row * kSquareStride + column + k] =
            row < tile.rows && column + k < tile.columns
                ? static_cast<float>(from[row * at.keys + column + k])
                : 0.0f;
      }
    });
  }
};

// L = p M + s (S + B), made where it is needed: without a convolution no map is
// stored. keep: L is stored as the carry, if that is wanted.
template <typename T>
struct MadeLogits {
  TokenRows<T> q, k;
  const T* previous;  // or null
  const T* bias;      // of the scores, or null
  T* carry;           // or null
  float scale, p, s;

  __device__ void fill(const MapBlock& at, std::int64_t h,
                       const SquareTile& tile, const TileSpace<T>& space,
                       bool keep) const {
    space.multiply(at, h, tile, q, k, space.logits);
    const std::int64_t first = at.row(h, tile.row) + tile.column;
    each_four([&](int, int row, int column) {
#pragma unroll
      for (int e = 0; e < kFour; ++e) {
        float& l = space.logits[row * kSquareStride + column + e];
        if (!tile.inside(row, column + e)) {
          l = 0.0f;
          continue;
        }
        const std::int64_t cell = first + row * at.keys + column + e;
        const float m =
            previous == nullptr ? 0.0f : p * static_cast<float>(previous[cell]);
        const float more =
            bias == nullptr ? 0.0f : static_cast<float>(bias[cell]);
        const float made = m + s * (scale * l + more);
        const T rounded(tile.exists(at, row, column + e) ? made : 0.0f);
        l = static_cast<float>(rounded);
        if (keep && carry != nullptr) carry[cell] = rounded;
      }
    });
  }
};

template <typename T>
MadeLogits<T> made_logits(const FusedAttention& in, T* carry) {
  const std::int64_t heads = in.layout.heads;
  return {{in.q, heads},
          {in.k, heads},
          in.previous.as<T>(),
          in.score_bias.as<T>(),
          carry,
          static_cast<float>(in.scale),
          static_cast<float>(in.c.p),
          static_cast<float>(in.c.s)};
}

// What a block of a kernel on tiles works on: 64 rows (of queries, or of keys)
// of a head, and 64 of its columns of values.
struct TileJob {
  std::int64_t head, row, column;

  __device__ TileJob(const MapBlock& at, std::int64_t rows,
                     std::int64_t width) {
    const ProductSize size{rows, width, 0};
    head = at.number / size.tiles();
    row = at.number % size.tiles() / size.across() * kSide;
    column = at.number % size.across() * kSide;
  }
};

}  // namespace ea::cuda
