// Square tiles of one head's maps, of which each thread has a share: logits,
// read or made, and what fused attention makes of them cell by cell and in
// products.
#pragma once

#include "kernels/cuda/attention_forms.cuh"
#include "kernels/cuda/dropped.cuh"
#include "kernels/cuda/evolve_numbers.h"
#include "kernels/cuda/fused_rows.cuh"

namespace ea::cuda {

// A tile of kSide x kSide cells, of which rows x columns lie in the map.
struct SquareTile {
  int row, column;
  int rows, columns;

  __device__ SquareTile(const MapBlock& at, int row_, int column_)
      : row(row_),
        column(column_),
        rows(of_side(at.queries - row_)),
        columns(of_side(at.keys - column_)) {}

  // Whether all its cells lie in the map and exist.
  __device__ bool whole(const MapBlock& at) const {
    return rows == kSide && columns == kSide && at.dense();
  }
  // How many of row i exist, as far as the mask does not say.
  __device__ int length(const MapBlock& at, int i) const {
    if (i >= rows) return 0;
    const std::int64_t seen =
        MapLayout::columns_of(at.causal, at.queries, at.keys, row + i) - column;
    return seen < 0 ? 0 : seen < columns ? static_cast<int>(seen) : columns;
  }
};

// Sets the cells of a share that do not exist.
template <typename S>
__device__ inline void set_missing(const MapBlock& at, const SquareTile& tile,
                                   S& share, float value) {
  if (tile.whole(at)) return;
  const int column = share.column(0);
  const std::uint8_t* const mask =
      at.mask == nullptr ? nullptr : at.mask + tile.column + column;
#pragma unroll
  for (int r = 0; r < S::kRows; ++r) {
    const int left = tile.length(at, share.row(r)) - column;
#pragma unroll
    for (int c = 0; c < S::kCells; ++c) {
      const int j = S::after(c);
      if (j >= left || (mask != nullptr && mask[j] == 0)) {
        share.at(r, c) = value;
      }
    }
  }
}

// Over the threads of a row; all of them get the result.
template <typename S, typename Op>
__device__ inline float over_row(const S&, float value, Op op) {
#pragma unroll
  for (int distance = S::kOfRow / 2; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

// N neighbours as one word.
template <int N, typename E>
struct alignas(N * sizeof(E)) Few {
  static constexpr int kWords = N * sizeof(E) / 4;
  std::uint32_t words[kWords];

  __device__ float operator[](int k) const {
    if constexpr (sizeof(E) == 4) {
      return float_of_bits(words[k]);
    } else {
      return float_of_bits(k % 2 == 0 ? words[k / 2] << 16
                                      : words[k / 2] & 0xffff0000u);
    }
  }
  __device__ void set(const float (&v)[N]) {
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      if constexpr (sizeof(E) == 4) {
        words[k] = bits_of_float(v[k]);
      } else {
        words[k] = bf16_pair(v[2 * k], v[2 * k + 1]);
      }
    }
  }
};

// Whether all of a tile's columns lie in memory, a thread's from p on as words.
template <typename Word, typename E>
__device__ inline bool in_words(const E* p, int count) {
  return count == kSide &&
         reinterpret_cast<std::uintptr_t>(p) % alignof(Word) == 0;
}

// Row r of a thread's share from and to memory, where `count` of the tile's
// columns lie from p on; the rest is 0.
template <typename S, typename E>
__device__ inline void load_row(const S& share, const E* p, int count,
                                float (&v)[S::kCells]) {
  using Word = Few<S::kTogether, E>;
  p += share.column(0);
  if (in_words<Word>(p, count)) {
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
  if (in_words<Word>(p, count)) {
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

// Where the rows of a share of a tile begin in the maps, and how many of their
// cells lie there.
template <typename S>
struct TileCells {
  std::int64_t first[S::kRows];
  int count[S::kRows];

  __device__ TileCells(const MapBlock& at, std::int64_t h,
                       const SquareTile& tile, const S& share) {
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) {
      first[r] = at.row(h, tile.row + share.row(r)) + tile.column;
      count[r] = share.row(r) < tile.rows ? tile.columns : 0;
    }
  }
};

// A share of a tile from maps in memory, 0 beyond them.
template <typename S, typename E>
__device__ inline S load_tile(const E* maps, const TileCells<S>& cells) {
  S tile;
#pragma unroll
  for (int r = 0; r < S::kRows; ++r) {
    float row[S::kCells];
    load_row(tile, maps + cells.first[r], cells.count[r], row);
#pragma unroll
    for (int c = 0; c < S::kCells; ++c) tile.at(r, c) = row[c];
  }
  return tile;
}

// Which cells of a share dropout keeps: bit kCells r + c.
__device__ inline std::uint32_t kept_cells(const DropBits& drop,
                                           const TileCells<PlainShare>& cells) {
  if (!drop.on()) return 0xffffffffu;
  std::uint32_t kept = 0;
#pragma unroll
  for (int r = 0; r < PlainShare::kRows; ++r) {
    kept |= drop.kept_from(cells.first[r] + PlainShare().column(0))
            << r * PlainShare::kCells;
  }
  return kept;
}
// The four threads of a row each draw a quarter of its 64 bits, and those of
// the next group, which a row has a part of that begins within a group.
__device__ inline std::uint32_t kept_cells(
    const DropBits& drop, const TileCells<TensorShare>& cells) {
  if (!drop.on()) return 0xffffffffu;
  const int quarter = static_cast<int>(threadIdx.x) % TensorShare::kOfRow;
  std::uint32_t kept = 0;
#pragma unroll
  for (int r = 0; r < TensorShare::kRows; ++r) {
    const std::int64_t group = cells.first[r] >> 2;
    const int skip = static_cast<int>(cells.first[r] & 3);
    std::uint64_t row = 0;
#pragma unroll
    for (int m = 0; m < kSide / 16; ++m) {
      row |= std::uint64_t{drop.kept(group + 4 * m + quarter)}
             << (16 * m + 4 * quarter);
    }
    row |= __shfl_xor_sync(kAllLanes, row, 1);
    row |= __shfl_xor_sync(kAllLanes, row, 2);
    if (__any_sync(kAllLanes, skip != 0)) {
      const std::uint64_t next = drop.kept(group + kSide / 4);
      row = row >> skip | next << 1 << (63 - skip);
    }
    row >>= 2 * quarter;
#pragma unroll
    for (int n = 0; n < kSide / kTileN; ++n) {
      kept |= static_cast<std::uint32_t>(row >> kTileN * n & 3u)
              << (r * TensorShare::kCells + 2 * n);
    }
  }
  return kept;
}
template <typename S>
__device__ inline bool is_kept(std::uint32_t kept, int r, int c) {
  return (kept >> (r * S::kCells + c) & 1u) != 0;
}

// Shared memory of the kernels on tiles: one square of a share's parts, and
// some of rows of tokens.
template <typename T>
struct TileSpace {
  static constexpr int kParts = std::is_same_v<T, float> ? 1 : kFloatParts;
  static constexpr std::size_t bytes(int squares) {
    return static_cast<std::size_t>(kParts + squares) * kSquare<T> * sizeof(T);
  }
  T* parts;

  __device__ T* square(int i) const {
    return parts + (kParts + i) * kSquare<T>;
  }
};

// Of the context kernel queries, keys and values; of those of the gradients
// the gradient of the context too.
inline constexpr int kContextSquares = 3, kGradientSquares = 4;
// Blocks on a multiprocessor at a time that registers are kept for; on sm_90
// the shared memory holds as many.
inline constexpr int kContextBlocks = 3, kGradientBlocks = 2;

// `blocks` of so many bytes at a time: 1 KB more each, in the 228 KB of a
// multiprocessor of sm_90; one in the 99 KB that every GPU since sm_80 gives a
// block.
constexpr bool tiles_fit(int blocks, std::size_t bytes) {
  return bytes <= 99 * 1024 &&
         static_cast<std::size_t>(blocks) * (bytes + 1024) <= 228 * 1024;
}
template <typename T>
constexpr bool kTilesFit =
    tiles_fit(kContextBlocks, TileSpace<T>::bytes(kContextSquares)) &&
    tiles_fit(kGradientBlocks, TileSpace<T>::bytes(kGradientSquares));
static_assert(kTilesFit<float> && kTilesFit<bfloat16>);

// Rows of tokens on one side of a tile, and the square for kSide of their
// columns. Rows of no more stay there for all products.
template <typename T>
struct StagedRows {
  StoredOperand<T, true> from;
  T* square;
  int row = 0;
  bool there = false;

  __device__ void move(int to) {
    there = there && to == row;
    row = to;
  }
  __device__ void bring(int column) {
    if (there) return;
    stage(from, row, column, square);
    there = from.columns <= kSide;
  }
};

template <typename T>
__device__ inline StagedRows<T> staged(const TokenRows<T>& rows,
                                       std::int64_t first, std::int64_t count,
                                       std::int64_t h, T* square) {
  return {rows.template operand<true>(first, count, h), square};
}

// The products of two sides' rows; the squares may be written again when it
// returns.
template <typename T>
__device__ inline Share<T> multiply(StagedRows<T>& a, StagedRows<T>& b,
                                    const SquareTile& tile) {
  Share<T> sum;
  for (int k = 0; k < a.from.columns; k += kSide) {
    a.bring(k);
    b.bring(k);
    __syncthreads();
    sum.template add<1, 1, true, true>(a.square, b.square,
                                       of_side(a.from.columns - k), tile.rows,
                                       tile.columns);
    __syncthreads();
  }
  return sum;
}

// Adds a tile, or its transpose, times columns `column`.. of rows of tokens.
template <bool kTurned, typename T>
__device__ inline void add_rows(const TileSpace<T>& space, const Share<T>& tile,
                                StagedRows<T>& b, int column, int depth,
                                int rows, int columns, Share<T>& to) {
  tile.put(space.parts);
  b.bring(column);
  __syncthreads();
  to.template add<TileSpace<T>::kParts, 1, !kTurned, false>(
      space.parts, b.square, depth, rows, columns);
  __syncthreads();
}

// Logits from memory.
template <typename T>
struct StoredLogits {
  const T* logits;

  __device__ Share<T> tile(const MapBlock&, const SquareTile&,
                           const TileCells<Share<T>>& cells, StagedRows<T>&,
                           StagedRows<T>&, bool) const {
    return load_tile(logits, cells);
  }
};

// L = p M + s (S + B), made where it is needed: without a convolution no map is
// stored. keep: L is stored as the carry, if that is wanted.
template <typename T>
struct MadeLogits {
  const T* previous;  // or null
  const T* bias;      // of the scores, or null
  T* carry;           // or null
  float scale, p, s;

  __device__ Share<T> tile(const MapBlock& at, const SquareTile& tile,
                           const TileCells<Share<T>>& cells, StagedRows<T>& q,
                           StagedRows<T>& k, bool keep) const {
    Share<T> l = multiply(q, k, tile);
#pragma unroll
    for (int r = 0; r < Share<T>::kRows; ++r) {
      float m[Share<T>::kCells] = {}, more[Share<T>::kCells] = {};
      if (previous != nullptr) {
        load_row(l, previous + cells.first[r], cells.count[r], m);
      }
      if (bias != nullptr) {
        load_row(l, bias + cells.first[r], cells.count[r], more);
      }
#pragma unroll
      for (int c = 0; c < Share<T>::kCells; ++c) {
        float& one = l.at(r, c);
        one = stored<T>(p * m[c] + s * (scale * one + more[c]));
      }
    }
    set_missing(at, tile, l, 0.0f);
    if (keep && carry != nullptr) {
#pragma unroll
      for (int r = 0; r < Share<T>::kRows; ++r) {
        store_row(l, r, 1.0f, carry + cells.first[r], cells.count[r]);
      }
    }
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

// What a block of a kernel on tiles works on: 64 rows (of queries, or of keys)
// of a head, and 64 of its columns of values.
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
