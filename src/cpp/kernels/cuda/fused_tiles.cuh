// Square tiles of one head's maps, of which each thread holds a share: logits,
// loaded or computed, and the per-cell operations and products of fused
// attention.
#pragma once

#include "kernels/cuda/attention_forms.cuh"
#include "kernels/cuda/dropped.cuh"
#include "kernels/cuda/evolve_numbers.h"
#include "kernels/cuda/fused_rows.cuh"

namespace ea::cuda {

// Reduces over the threads of a row; all of them get the result.
template <typename S, typename Op>
__device__ inline float over_row(const S&, float value, Op op) {
#pragma unroll
  for (int distance = S::kOfRow / 2; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

// Cells of a share that dropout keeps: bit kCells r + c. The bits are drawn
// once and can be stored for the next kernel in words of 64 cells of a row. A
// word's index follows from the row's first cell and the row's index, like that
// of gates.
template <typename S>
struct KeptCells;

template <>
struct KeptCells<PlainShare> {
  using S = PlainShare;
  DropBits drop;

  __device__ std::uint32_t draw(const SquareTile&, const TileCells<S>& cells,
                                std::int64_t) const {
    if (!drop.on()) return 0xffffffffu;
    std::uint32_t kept = 0;
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) {
      kept |= drop.kept_from(cells.first[r] + S().column(0)) << r * S::kCells;
    }
    return kept;
  }
  __device__ std::uint32_t again(const SquareTile& tile,
                                 const TileCells<S>& cells,
                                 std::int64_t number) const {
    return draw(tile, cells, number);
  }
};

template <>
struct KeptCells<TensorShare> {
  using S = TensorShare;
  DropBits drop;
  std::uint64_t* words = nullptr;  // or null

  static std::int64_t words_of(std::int64_t cells, std::int64_t rows) {
    return cells / kSide + rows + 1;
  }
  // number: index of the tile's first row.
  __device__ std::uint32_t draw(const SquareTile& tile,
                                const TileCells<S>& cells,
                                std::int64_t number) const {
    if (!drop.on()) return 0xffffffffu;
    std::uint64_t rows[S::kRows];
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) {
      rows[r] = row(cells.first[r]);
      if (words != nullptr && quarter() == 0 && cells.count[r] > 0) {
        words[word(tile, cells, number, r)] = rows[r];
      }
    }
    return of_rows(rows);
  }
  __device__ std::uint32_t again(const SquareTile& tile,
                                 const TileCells<S>& cells,
                                 std::int64_t number) const {
    if (!drop.on()) return 0xffffffffu;
    std::uint64_t rows[S::kRows] = {};
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) {
      if (cells.count[r] > 0) rows[r] = words[word(tile, cells, number, r)];
    }
    return of_rows(rows);
  }

 private:
  __device__ static int quarter() {
    return static_cast<int>(threadIdx.x) % S::kOfRow;
  }
  __device__ static std::int64_t word(const SquareTile& tile,
                                      const TileCells<S>& cells,
                                      std::int64_t number, int r) {
    return ((cells.first[r] - tile.column) >> 6) + tile.column / kSide +
           number + S().row(r);
  }
  // The four threads of a row each draw a quarter of its 64 bits. A row that
  // starts within a group also needs part of the next group, which each of them
  // draws.
  __device__ std::uint64_t row(std::int64_t first) const {
    const std::int64_t group = first >> 2;
    const int skip = static_cast<int>(first & 3);
    std::uint64_t bits = 0;
#pragma unroll
    for (int m = 0; m < kSide / 16; ++m) {
      bits |= std::uint64_t{drop.kept(group + 4 * m + quarter())}
              << (16 * m + 4 * quarter());
    }
    bits |= __shfl_xor_sync(kAllLanes, bits, 1);
    bits |= __shfl_xor_sync(kAllLanes, bits, 2);
    if (__any_sync(kAllLanes, skip != 0)) {
      const std::uint64_t next = drop.kept(group + kSide / 4);
      bits = bits >> skip | next << 1 << (63 - skip);
    }
    return bits;
  }
  // Extracts the thread's cells: two of every eight.
  __device__ static std::uint32_t of_rows(
      const std::uint64_t (&rows)[S::kRows]) {
    std::uint32_t kept = 0;
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) {
      const std::uint64_t bits = rows[r] >> 2 * quarter();
#pragma unroll
      for (int n = 0; n < kSide / kTileN; ++n) {
        kept |= static_cast<std::uint32_t>(bits >> kTileN * n & 3u)
                << (r * S::kCells + 2 * n);
      }
    }
    return kept;
  }
};
template <typename S>
__device__ inline bool is_kept(std::uint32_t kept, int r, int c) {
  return (kept >> (r * S::kCells + c) & 1u) != 0;
}

// Shared memory of the tile kernels: squares of token rows, then squares of
// tiles, one for each part.
template <typename T>
struct TileSpace {
  static constexpr int kParts = std::is_same_v<T, float> ? 1 : kFloatParts;
  static constexpr std::size_t bytes(int rows, int tiles) {
    return static_cast<std::size_t>(rows + tiles * kParts) * kSquare<T> *
           sizeof(T);
  }
  T* memory;
  int rows;

  __device__ T* of_rows(int i) const { return memory + i * kSquare<T>; }
  __device__ T* of_tile(int i) const { return of_rows(rows + i * kParts); }
};
// Squares of token rows: the context kernel needs queries, keys and values, the
// gradient kernels also the context's gradient. Tiles: one if a thread's own
// cells do not stay in registers; two for the key gradients, which read tiles
// transposed.
inline constexpr int kContextRows = 3, kGradientRows = 4, kKeyTiles = 2;
template <typename T>
inline constexpr int kOwnTiles = std::is_same_v<T, float> ? 1 : 0;
// Blocks per multiprocessor that the registers are limited for; on sm_90 as
// many fit in shared memory with bfloat16. With a convolution the gradients
// keep less in registers.
template <typename T>
inline constexpr int kContextBlocks = std::is_same_v<T, bfloat16> ? 3 : 2;
template <typename T, bool kConvolved>
inline constexpr int kGradientBlocks =
    std::is_same_v<T, bfloat16> && kConvolved ? 3 : 2;
// Every GPU since sm_80 allows a block 99 KB.
static_assert(TileSpace<float>::bytes(kGradientRows, kKeyTiles) <= 99 * 1024 &&
              TileSpace<bfloat16>::bytes(kGradientRows, kKeyTiles) <=
                  228 / 3 * 1024 - 1024);

// Token rows on one side of a tile, and the square for kSide of their columns.
template <typename T>
struct StagedRows {
  StoredOperand<T, true> from;
  T* square;
  int row = 0, column = 0;
  bool there = false;

  __device__ void move(int row_, int column_) {
    there = there && row == row_ && column == column_;
    row = row_;
    column = column_;
  }
  __device__ void bring() {
    if (!there) stage(from, row, column, square);
    there = true;
  }
};

template <typename T>
__device__ inline StagedRows<T> staged(const TokenRows<T>& rows,
                                       std::int64_t first, std::int64_t count,
                                       std::int64_t h, T* square) {
  return {rows.template operand<true>(first, count, h), square};
}

// Loads the rows that are not yet in their squares.
template <typename... Rows>
__device__ inline void bring(Rows&... rows) {
  if ((rows.there && ...)) return;
  __syncthreads();  // until no thread reads the old contents
  (rows.bring(), ...);
  __syncthreads();
}

// Returns the products of the rows of two sides.
template <typename T>
__device__ inline Share<T> multiply(StagedRows<T>& a, StagedRows<T>& b,
                                    const SquareTile& tile) {
  Share<T> sum;
  for (int k = 0; k < a.from.columns; k += kSide) {
    a.move(a.row, k);
    b.move(b.row, k);
    bring(a, b);
    sum.template add<1, 1, true, true>(a.square, b.square,
                                       of_side(a.from.columns - k), tile.rows,
                                       tile.columns);
  }
  return sum;
}

// Adds products of tiles with columns `column`.. of token rows. own: see
// add_own().
template <typename T, typename... Products>
__device__ inline void add_rows(T* own, StagedRows<T>& b, int column, int depth,
                                int rows, int columns, Products... products) {
  b.move(b.row, column);
  bring(b);
  add_own(own, b.square, depth, rows, columns, products...);
}
// Adds the product with the transpose of a tile that is in a square.
template <typename T>
__device__ inline void add_turned(const T* tile, StagedRows<T>& b, int column,
                                  int depth, int rows, int columns,
                                  Share<T>& to) {
  b.move(b.row, column);
  bring(b);
  to.template add<TileSpace<T>::kParts, 1, false, false>(tile, b.square, depth,
                                                         rows, columns);
}

// Logits loaded from memory.
template <typename T>
struct StoredLogits {
  static constexpr bool kMade = false;
  const T* logits;

  __device__ Share<T> tile(const MapBlock&, const SquareTile&,
                           const TileCells<Share<T>>& cells, StagedRows<T>&,
                           StagedRows<T>&, bool) const {
    return load_tile(logits, cells);
  }
};

// L = p M + s (S + B), computed where needed: without a convolution no map is
// stored. keep: stores L as the carry, if one is wanted.
template <typename T>
struct MadeLogits {
  static constexpr bool kMade = true;
  const T* previous;  // or null
  const T* bias;      // of the scores, or null
  T* carry;           // or null
  float scale, p, s;

  __device__ Share<T> tile(const MapBlock& at, const SquareTile& tile,
                           const TileCells<Share<T>>& cells, StagedRows<T>& q,
                           StagedRows<T>& k, bool keep) const {
    Share<T> l = multiply(q, k, tile);
    each_cell(l, [&](int r, int c) { l.at(r, c) *= scale; });
    if (bias != nullptr) add_tile(bias, cells, 1.0f, l);
    each_cell(l, [&](int r, int c) { l.at(r, c) *= s; });
    if (previous != nullptr) add_tile(previous, cells, p, l);
    each_cell(l, [&](int r, int c) { l.at(r, c) = stored<T>(l.at(r, c)); });
    set_missing(at, tile, l, 0.0f);
    if (keep && carry != nullptr) store_tile(l, 1.0f, carry, cells);
    return l;
  }
};

template <typename T>
MadeLogits<T> made_logits(const FusedAttention& in, T* carry) {
  return {in.previous.as<T>(),
          in.score_bias.as<T>(),
          carry,
          static_cast<float>(in.scale),
          static_cast<float>(in.c.p),
          static_cast<float>(in.c.s)};
}

// Work of a block of a tile kernel: 64 rows (queries or keys) and 64 columns of
// the result of one head.
struct TileJob {
  std::int64_t head;
  int row, column;

  __device__ TileJob(const MapBlock& at, std::int64_t rows,
                     std::int64_t width) {
    const ProductSize size{rows, width, 0};
    head = at.number / size.tiles();
    row = static_cast<int>(at.number % size.tiles() / size.across()) * kSide;
    column = static_cast<int>(at.number % size.across()) * kSide;
  }
};

}  // namespace ea::cuda
