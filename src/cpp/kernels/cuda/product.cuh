// Tiled matrix products over packed sequences: each block computes one tile of
// one head of one sequence, with sums in a fixed order.
#pragma once

#include <type_traits>

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/map_blocks.cuh"
#include "kernels/cuda/parts.cuh"

namespace ea::cuda {

// C [rows, columns] = A [rows, depth] B [depth, columns]. Each block computes a
// tile of kSide x kSide in a loop over the depth in steps of kSide. It copies
// squares of A and B to shared memory in their memory layout.
inline constexpr int kProductThreads = 128;
inline constexpr int kSide = 64;
inline constexpr int kSpan = 8;  // adjacent elements per load of a thread

// Row stride of a square in shared memory. The padding avoids bank conflicts
// when a warp reads 16 bytes (bfloat16) or 4 (float) of each of eight rows.
template <typename T>
inline constexpr int kStride = kSide + (sizeof(T) == 2 ? 8 : 1);
template <typename T>
inline constexpr int kSquare = kStride<T> * kSide;  // elements of a part

// kSpan elements as stored in memory.
template <typename E>
struct Span {
  uint4 words[kSpan / kPack<E>];
};

// A matrix in memory as an operand. kAlongDepth: its rows run along the depth
// of the product (one row per row of A or column of B); otherwise across it.
template <typename E, bool kAlong>
struct StoredOperand {
  using Element = E;
  static constexpr bool kAlongDepth = kAlong;
  static constexpr int kCount = kParts<E>;
  const E* data;
  std::int64_t stride;  // between rows
  int rows, columns;    // zeros beyond

  // Returns whether kSide columns starting at `column` are readable as packs.
  __device__ bool packs(int column) const {
    return column + kSide <= columns && stride % kPack<E> == 0 &&
           reinterpret_cast<std::uintptr_t>(data + column) % 16 == 0;
  }
  // Loads eight adjacent elements of such columns.
  __device__ void load_packs(int row, int column, Span<E>& v) const {
    const auto* const p =
        reinterpret_cast<const uint4*>(data + row * stride + column);
#pragma unroll
    for (int i = 0; i < kSpan / kPack<E>; ++i) {
      v.words[i] = row < rows ? p[i] : uint4{0u, 0u, 0u, 0u};
    }
  }
  // Loads eight adjacent elements, with any alignment.
  __device__ void load(int row, int column, Span<E>& v) const {
    const E* p = data + row * stride + column;
    const int count = row < rows ? columns - column : 0;
    constexpr int kOf = kPack<E>;
    if (count >= kSpan && reinterpret_cast<std::uintptr_t>(p) % 16 == 0) {
#pragma unroll
      for (int i = 0; i < kSpan; i += kOf) {
        v.words[i / kOf] = *reinterpret_cast<const uint4*>(p + i);
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kSpan; i += kOf) {
      float values[kOf];
      load_pack(p + i, count - i, false, values);
      v.words[i / kOf] = pack(values);
    }
  }
};

// Stores adjacent values in a square: as floats, or as bfloat16 parts.
template <int kCount, int kValues>
__device__ inline void put_values(const float (&v)[kValues], float* to) {
#pragma unroll
  for (int k = 0; k < kValues; ++k) to[k] = v[k];
}
template <int kCount, int kValues>
__device__ inline void put_values(const float (&v)[kValues], bfloat16* to) {
#pragma unroll
  for (int k = 0; k < kValues; k += 2) {
    std::uint32_t parts[kCount];
    split_pair(v[k], v[k + 1], parts);
#pragma unroll
    for (int q = 0; q < kCount; ++q) {
      *reinterpret_cast<std::uint32_t*>(to + q * kSquare<bfloat16> + k) =
          parts[q];
    }
  }
}

// Copies an operand's elements starting at (row, column) to a square of T.
template <typename T, typename Operand>
__device__ inline void stage(const Operand& from, int row, int column, T* to) {
  using E = typename Operand::Element;
  constexpr int kOfRow = kSide / kSpan, kRows = kProductThreads / kOfRow;
  constexpr int kAtOnce =
      8 / sizeof(E);  // loads issued before the first is used
  const int i = static_cast<int>(threadIdx.x) / kOfRow;
  const int j = static_cast<int>(threadIdx.x) % kOfRow * kSpan;
#pragma unroll
  for (int first = 0; first < kSide; first += kAtOnce * kRows) {
    Span<E> v[kAtOnce];
    const auto load = [&](auto one) {
#pragma unroll
      for (int turn = 0; turn < kAtOnce; ++turn) {
        one(row + first + i + turn * kRows, v[turn]);
      }
    };
    if (from.packs(column)) {
      load([&](int at, Span<E>& to) { from.load_packs(at, column + j, to); });
    } else {
      load([&](int at, Span<E>& to) { from.load(at, column + j, to); });
    }
#pragma unroll
    for (int turn = 0; turn < kAtOnce; ++turn) {
      T* const at = to + (first + i + turn * kRows) * kStride<T> + j;
      if constexpr (sizeof(T) == 2 && sizeof(E) == 2) {
        *reinterpret_cast<uint4*>(at) = v[turn].words[0];
      } else {
#pragma unroll
        for (int k = 0; k < kSpan; k += kPack<E>) {
          float values[kPack<E>];
          unpack(v[turn].words[k / kPack<E>], values);
          put_values<Operand::kCount>(values, at + k);
        }
      }
    }
  }
}

// float32 cells of a tile held by one thread: four adjacent cells in each of
// eight rows. 16 threads share a row.
struct PlainShare {
  static constexpr int kRows = 8, kCells = 4, kTogether = 4, kOfRow = 16;
  float sums[kRows][kCells] = {};

  __device__ int row(int r) const {
    return static_cast<int>(threadIdx.x) / kOfRow + 8 * r;
  }
  // Returns the distance from the thread's first cell in a row to cell c.
  EA_HOST_DEVICE static constexpr int after(int c) { return c; }
  __device__ int column(int c) const {
    return static_cast<int>(threadIdx.x) % kOfRow * kCells + after(c);
  }
  __device__ float& at(int r, int c) { return sums[r][c]; }
  __device__ float at(int r, int c) const { return sums[r][c]; }

  template <int kA, int kB, bool kAlongA, bool kAlongB>
  __device__ void add(const float* a, const float* b, int depth, int rows,
                      int columns) {
    if (row(0) >= rows || column(0) >= columns) return;
    for (int k = 0; k < depth; ++k) {
      float right[kCells];
#pragma unroll
      for (int c = 0; c < kCells; ++c) {
        right[c] = kAlongB ? b[column(c) * kStride<float> + k]
                           : b[k * kStride<float> + column(c)];
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (row(r) >= rows) break;
        const float left = kAlongA ? a[row(r) * kStride<float> + k]
                                   : a[k * kStride<float> + row(r)];
#pragma unroll
        for (int c = 0; c < kCells; ++c) sums[r][c] += left * right[c];
      }
    }
  }
  // Stores the cells in a square.
  __device__ void put(float* to) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int c = 0; c < kCells; ++c) {
        to[row(r) * kStride<float> + column(c)] = sums[r][c];
      }
    }
  }
};

// bfloat16 cells of a tile: a warp holds 16 rows in eight fragments, a thread
// eight pairs of adjacent cells in each of two rows. Four threads share a row.
struct TensorShare {
  static constexpr int kRows = 2, kCells = 16, kTogether = 2, kOfRow = 4;
  FragmentC sums[kSide / kTileN];

  __device__ int lane() const { return static_cast<int>(threadIdx.x) % kWarp; }
  __device__ int first() const {
    return static_cast<int>(threadIdx.x) / kWarp * kTileM;
  }
  __device__ int row(int r) const { return first() + lane() / 4 + 8 * r; }
  EA_HOST_DEVICE static constexpr int after(int c) {
    return c / 2 * kTileN + c % 2;
  }
  __device__ int column(int c) const { return lane() % 4 * 2 + after(c); }
  __device__ float& at(int r, int c) { return sums[c / 2].c[r * 2 + c % 2]; }
  __device__ float at(int r, int c) const {
    return sums[c / 2].c[r * 2 + c % 2];
  }

  // a and b have kA and kB parts. The whole warp skips fragments beyond `rows`
  // and `columns`.
  template <int kA, int kB, bool kAlongA, bool kAlongB>
  __device__ void add(const bfloat16* a, const bfloat16* b, int depth, int rows,
                      int columns) {
    constexpr int kS = kStride<bfloat16>;
    if (first() >= rows) return;
    const int of_eight = lane() % 8, odd = lane() / 8 % 2, upper = lane() / 16;
    // Start of the lane's row in the four tiles: for a (rows, depth) in the
    // order of FragmentA, for b two fragments of 8 columns, depth first.
    a += kAlongA ? (first() + odd * 8 + of_eight) * kS + upper * 8
                 : (upper * 8 + of_eight) * kS + first() + odd * 8;
    b += kAlongB ? (upper * 8 + of_eight) * kS + odd * 8
                 : (odd * 8 + of_eight) * kS + upper * 8;
#pragma unroll 1
    for (int k = 0; k < depth; k += kTileK) {
      FragmentA left[kA];
#pragma unroll
      for (int p = 0; p < kA; ++p) {
        load_tiles<!kAlongA>(a + p * kSquare<bfloat16> + (kAlongA ? k : k * kS),
                             left[p].a);
      }
#pragma unroll
      for (int n = 0; n < kSide; n += 2 * kTileN) {
        if (n >= columns) break;
        std::uint32_t right[kB][4];
#pragma unroll
        for (int q = 0; q < kB; ++q) {
          load_tiles<!kAlongB>(
              b + q * kSquare<bfloat16> + (kAlongB ? n * kS + k : k * kS + n),
              right[q]);
        }
#pragma unroll
        for (int p = 0; p < kA; ++p) {
#pragma unroll
          for (int q = 0; q < kB; ++q) {
            if (!parts_meet(p, q)) continue;
            mma(sums[n / kTileN], left[p], {{right[q][0], right[q][1]}});
            mma(sums[n / kTileN + 1], left[p], {{right[q][2], right[q][3]}});
          }
        }
      }
    }
  }
  // Stores the cells in squares, as parts.
  __device__ void put(bfloat16* to) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int c = 0; c < kCells; c += 2) {
        const float pair[2] = {at(r, c), at(r, c + 1)};
        put_values<kFloatParts>(pair,
                                to + row(r) * kStride<bfloat16> + column(c));
      }
    }
  }
};

template <typename T>
using Share =
    std::conditional_t<std::is_same_v<T, float>, PlainShare, TensorShare>;

// Product with a tile as left operand, taken directly from the threads that
// hold its cells; b (depth, columns) is a square.
template <typename S>
struct OwnProduct;

// own: a square for the tile; a warp uses only the rows whose cells it holds.
template <>
struct OwnProduct<PlainShare> {
  const PlainShare& tile;
  PlainShare& to;

  __device__ void add(float* own, const float* b, int depth, int rows,
                      int columns) const {
    __syncwarp();
    tile.put(own);
    __syncwarp();
    to.add<1, 1, true, false>(own, b, depth, rows, columns);
  }
};
template <typename... Products>
__device__ inline void add_own(float* own, const float* b, int depth, int rows,
                               int columns, Products... products) {
  (products.add(own, b, depth, rows, columns), ...);
}

// The fragments of a sum have the layout of a left operand's fragments.
template <>
struct OwnProduct<TensorShare> {
  const TensorShare& tile;
  TensorShare& to;
  std::uint32_t left[4][kFloatParts] = {};

  __device__ void split(int k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto& from = tile.sums[k / kTileN + i / 2].c;
      split_pair(from[i % 2 * 2], from[i % 2 * 2 + 1], left[i]);
    }
  }
  __device__ void add(int n, const std::uint32_t (&right)[4]) {
#pragma unroll
    for (int p = 0; p < kFloatParts; ++p) {
      const FragmentA part{{left[0][p], left[1][p], left[2][p], left[3][p]}};
      mma(to.sums[n / kTileN], part, {{right[0], right[1]}});
      mma(to.sums[n / kTileN + 1], part, {{right[2], right[3]}});
    }
  }
};
template <typename... Products>
__device__ inline void add_own(bfloat16*, const bfloat16* b, int depth,
                               int rows, int columns, Products... products) {
  const int lane = TensorShare().lane();
  if (TensorShare().first() >= rows) return;
  b += lane % 16 * kStride<bfloat16> + lane / 16 * 8;
#pragma unroll
  for (int k = 0; k < kSide; k += kTileK) {
    if (k >= depth) break;
    (products.split(k), ...);
#pragma unroll
    for (int n = 0; n < kSide; n += 2 * kTileN) {
      if (n >= columns) break;
      std::uint32_t right[4];
      load_tiles<true>(b + k * kStride<bfloat16> + n, right);
      (products.add(n, right), ...);
    }
  }
}

// Calls fn(r, c) for cell c of row r of the thread.
template <typename S, typename Fn>
__device__ inline void each_cell(const S&, const Fn& fn) {
#pragma unroll
  for (int r = 0; r < S::kRows; ++r) {
#pragma unroll
    for (int c = 0; c < S::kCells; ++c) fn(r, c);
  }
}

// Load and store row r of a thread's share. The tile's first `count` columns
// are in memory starting at p; the rest is 0.
template <typename S, typename E>
__device__ inline void load_row(const S& share, const E* p, int count,
                                float (&v)[S::kCells]) {
  using Word = Few<S::kTogether, E>;
  p += share.column(0);
  if (count == kSide && is_few<S::kTogether>(p)) {
#pragma unroll
    for (int c = 0; c < S::kCells; c += S::kTogether) {
      const Word word = *reinterpret_cast<const Word*>(p + S::after(c));
#pragma unroll
      for (int k = 0; k < S::kTogether; ++k) v[c + k] = word[k];
    }
    return;
  }
  count -= share.column(0);
#pragma unroll
  for (int c = 0; c < S::kCells; ++c) {
    v[c] = S::after(c) < count ? static_cast<float>(p[S::after(c)]) : 0.0f;
  }
}
template <typename S, typename E>
__device__ inline void store_row(const S& share, int r, float scale, E* p,
                                 int count) {
  using Word = Few<S::kTogether, E>;
  p += share.column(0);
  if (count == kSide && is_few<S::kTogether>(p)) {
#pragma unroll
    for (int c = 0; c < S::kCells; c += S::kTogether) {
      float few[S::kTogether];
#pragma unroll
      for (int k = 0; k < S::kTogether; ++k) {
        few[k] = scale * share.at(r, c + k);
      }
      Word word;
      word.set(few);
      *reinterpret_cast<Word*>(p + S::after(c)) = word;
    }
    return;
  }
  count -= share.column(0);
#pragma unroll
  for (int c = 0; c < S::kCells; ++c) {
    if (S::after(c) < count) p[S::after(c)] = E(scale * share.at(r, c));
  }
}

// Returns how many of n rows or columns fall in a tile.
__device__ inline int of_side(std::int64_t n) {
  return static_cast<int>(n < kSide ? n : kSide);
}

// Number of parts of an operand in squares of T.
template <typename T, typename Operand>
inline constexpr int kPartsOf = std::is_same_v<T, float> ? 1 : Operand::kCount;

// Adds the product of rows `row`.. of a and columns `column`.. of b to the
// shares of all threads; only `rows` and `columns` of them are needed. left and
// right: shared memory, reusable when the call returns.
template <typename T, typename A, typename B>
__device__ inline void add_product(const A& a, int row, const B& b, int column,
                                   int depth, int rows, int columns, T* left,
                                   T* right, Share<T>& share) {
  for (int k = 0; k < depth; k += kSide) {
    if constexpr (A::kAlongDepth) {
      stage(a, row, k, left);
    } else {
      stage(a, k, row, left);
    }
    if constexpr (B::kAlongDepth) {
      stage(b, column, k, right);
    } else {
      stage(b, k, column, right);
    }
    __syncthreads();
    share.template add<kPartsOf<T, A>, kPartsOf<T, B>, A::kAlongDepth,
                       B::kAlongDepth>(left, right, of_side(depth - k), rows,
                                       columns);
    __syncthreads();
  }
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

// Form: size(queries, keys), the operands a(at, h) and b(at, h), and store(at,
// h, row, column, share).
template <typename T, typename Form>
__global__ void __launch_bounds__(kProductThreads)
    product_kernel(MapBlocks blocks, Form form) {
  using A = decltype(form.a(MapBlock{}, 0));
  using B = decltype(form.b(MapBlock{}, 0));
  EA_SHARED(T, left, (kPartsOf<T, A> * kSquare<T>));
  EA_SHARED(T, right, (kPartsOf<T, B> * kSquare<T>));
  const MapBlock at = blocks.find(blockIdx.x);
  const ProductSize size = form.size(at.queries, at.keys);
  const std::int64_t h = at.number / size.tiles();
  const std::int64_t tile = at.number % size.tiles();
  const int row = static_cast<int>(tile / size.across()) * kSide;
  const int column = static_cast<int>(tile % size.across()) * kSide;
  const A a = form.a(at, h);
  const B b = form.b(at, h);
  const int rows = of_side(size.rows - row);
  const int columns = of_side(size.columns - column);
  Share<T> share;
  add_product(a, row, b, column, static_cast<int>(size.depth), rows, columns,
              left, right, share);
  form.store(at, h, row, column, share);
}

template <typename T, typename Form>
void run_products(const MapLayout& layout, const Form& form) {
  const auto count = [&](std::int64_t queries, std::int64_t keys) {
    return layout.heads * form.size(queries, keys).tiles();
  };
  launch_map_blocks(layout, count, kProductThreads, 0, product_kernel<T, Form>,
                    form);
}

}  // namespace ea::cuda
