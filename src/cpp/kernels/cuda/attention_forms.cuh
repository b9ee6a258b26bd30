// The products of attention as forms for product.cuh: maps from token rows, and
// token rows from maps.
#pragma once

#include "kernels/cuda/product.cuh"
#include "tensor/tensor_view.h"

namespace ea::cuda {

// Token rows [tokens, heads * d].
template <typename T>
struct TokenRows {
  T* data;
  std::int64_t stride, width;  // width: d

  TokenRows(const TensorView& t, std::int64_t heads)
      : data(t.as<T>()), stride(t.strides[0]), width(t.dim(1) / heads) {}

  __device__ T* row(std::int64_t token, std::int64_t h) const {
    return data + token * stride + h * width;
  }
  // Returns tokens first .. first + count of head h.
  template <bool kAlong>
  __device__ StoredOperand<T, kAlong> operand(std::int64_t first,
                                              std::int64_t count,
                                              std::int64_t h) const {
    return {row(first, h), stride, static_cast<int>(count),
            static_cast<int>(width)};
  }
};

// A map in memory as an operand, 0 where no cell exists.
template <typename E, bool kAlong>
struct MapOperand : StoredOperand<E, kAlong> {
  MapBlock at;

  __device__ bool packs(int column) const {
    return at.dense() && StoredOperand<E, kAlong>::packs(column);
  }
  __device__ void load(int row, int column, Span<E>& v) const {
    StoredOperand<E, kAlong>::load(row, column, v);
    if (at.dense()) return;
#pragma unroll
    for (int i = 0; i < kSpan; i += kPack<E>) {
      float values[kPack<E>];
      unpack(v.words[i / kPack<E>], values);
#pragma unroll
      for (int k = 0; k < kPack<E>; ++k) {
        const int j = column + i + k;
        if (j < at.keys && !at.exists(row, j)) values[k] = 0.0f;
      }
      v.words[i / kPack<E>] = pack(values);
    }
  }
};

// Flat maps of E in memory.
template <typename E>
struct StoredMaps {
  const E* data;

  template <bool kAlong>
  __device__ MapOperand<E, kAlong> operand(const MapBlock& at,
                                           std::int64_t h) const {
    return {{data + at.row(h, 0), at.keys, at.queries, at.keys}, at};
  }
};

// A tile of kSide x kSide cells, of which rows x columns are inside the map.
struct SquareTile {
  int row, column;
  int rows, columns;

  __device__ SquareTile(const MapBlock& at, int row_, int column_)
      : row(row_),
        column(column_),
        rows(of_side(at.queries - row_)),
        columns(of_side(at.keys - column_)) {}

  // Returns whether all cells are inside the map and exist.
  __device__ bool whole(const MapBlock& at) const {
    return rows == kSide && columns == kSide && at.dense();
  }
  // Returns how many cells of row i exist, ignoring the mask.
  __device__ int length(const MapBlock& at, int i) const {
    if (i >= rows) return 0;
    const std::int64_t seen =
        MapLayout::columns_of(at.causal, at.queries, at.keys, row + i) - column;
    return seen < 0 ? 0 : seen < columns ? static_cast<int>(seen) : columns;
  }
};

// Sets the cells of a share that do not exist to `value`.
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

// Start of each row of a thread's share in the maps, and the number of the
// tile's cells there.
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

// Loads a share of a tile from maps in memory, 0 outside the maps.
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

// Adds scale times a tile of maps in memory to a share.
template <typename S, typename E>
__device__ inline void add_tile(const E* maps, const TileCells<S>& cells,
                                float scale, S& tile) {
#pragma unroll
  for (int r = 0; r < S::kRows; ++r) {
    float row[S::kCells];
    load_row(tile, maps + cells.first[r], cells.count[r], row);
#pragma unroll
    for (int c = 0; c < S::kCells; ++c) tile.at(r, c) += scale * row[c];
  }
}

// Stores scale times a share of a tile in maps in memory.
template <typename S, typename E>
__device__ inline void store_tile(const S& tile, float scale, E* maps,
                                  const TileCells<S>& cells) {
#pragma unroll
  for (int r = 0; r < S::kRows; ++r) {
    store_row(tile, r, scale, maps + cells.first[r], cells.count[r]);
  }
}

// Stores scale times a share in `count` token rows starting at `first`, in
// columns `column`.. of a head.
template <typename T>
__device__ inline void store_tokens(const Share<T>& share, float scale,
                                    const TokenRows<T>& to, std::int64_t first,
                                    int count, std::int64_t h, int column) {
#pragma unroll
  for (int r = 0; r < Share<T>::kRows; ++r) {
    if (share.row(r) >= count) continue;
    store_row(share, r, scale, to.row(first + share.row(r), h) + column,
              of_side(to.width - column));
  }
}

// Maps [queries, keys] = scale left right^T + bias, from token rows.
template <typename T, typename E>
struct MapForm {
  TokenRows<T> left, right;
  E* to;
  float scale;
  const T* bias = nullptr;

  EA_HOST_DEVICE ProductSize size(std::int64_t queries,
                                  std::int64_t keys) const {
    return {queries, keys, left.width};
  }
  __device__ auto a(const MapBlock& at, std::int64_t h) const {
    return left.template operand<true>(at.first_query, at.queries, h);
  }
  __device__ auto b(const MapBlock& at, std::int64_t h) const {
    return right.template operand<true>(at.first_key, at.keys, h);
  }
  __device__ void store(const MapBlock& at, std::int64_t h, int row, int column,
                        Share<T>& sums) const {
    const SquareTile tile(at, row, column);
    const TileCells<Share<T>> cells(at, h, tile, sums);
    each_cell(sums, [&](int r, int c) { sums.at(r, c) *= scale; });
    if (bias != nullptr) add_tile(bias, cells, 1.0f, sums);
    set_missing(at, tile, sums, 0.0f);
    store_tile(sums, 1.0f, to, cells);
  }
};

// Query rows = scale maps (key rows) if kQueries, otherwise key rows = scale
// maps^T (query rows); from flat maps of E.
template <typename T, typename E, bool kQueries>
struct TokenForm {
  StoredMaps<E> maps;
  TokenRows<T> others, out;
  float scale;

  EA_HOST_DEVICE ProductSize size(std::int64_t queries,
                                  std::int64_t keys) const {
    if constexpr (kQueries) return {queries, out.width, keys};
    return {keys, out.width, queries};
  }
  __device__ auto a(const MapBlock& at, std::int64_t h) const {
    return maps.template operand<kQueries>(at, h);
  }
  __device__ auto b(const MapBlock& at, std::int64_t h) const {
    return others.template operand<false>(
        kQueries ? at.first_key : at.first_query,
        kQueries ? at.keys : at.queries, h);
  }
  __device__ void store(const MapBlock& at, std::int64_t h, int row, int column,
                        const Share<T>& sums) const {
    store_tokens(sums, scale, out,
                 (kQueries ? at.first_query : at.first_key) + row,
                 of_side((kQueries ? at.queries : at.keys) - row), h, column);
  }
};

template <typename T, typename E>
using QueryForm = TokenForm<T, E, true>;
template <typename T>
using KeyForm = TokenForm<T, T, false>;

}  // namespace ea::cuda
