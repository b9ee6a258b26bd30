// The products of attention in the form that product.cuh runs: maps from token
// rows, and token rows from maps.
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
  // Tokens first .. first + count of head h.
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

// Maps [queries, keys] = left right^T of rows of queries and keys; store takes
// (cell, whether it exists, sum).
template <typename T, typename Store>
struct MapForm {
  TokenRows<T> left, right;
  Store to;

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
  __device__ void store(const MapBlock& at, std::int64_t h, std::int64_t i,
                        std::int64_t j, float sum) const {
    to(at.row(h, i) + j, at.exists(i, j), sum);
  }
};

// Query rows = scale maps (key rows). Maps: StoredMaps, or what makes its own.
template <typename T, typename Maps>
struct QueryForm {
  Maps maps;
  TokenRows<T> keys_rows, out;
  float scale;

  EA_HOST_DEVICE ProductSize size(std::int64_t queries,
                                  std::int64_t keys) const {
    return {queries, out.width, keys};
  }
  __device__ auto a(const MapBlock& at, std::int64_t h) const {
    return maps.template operand<true>(at, h);
  }
  __device__ auto b(const MapBlock& at, std::int64_t h) const {
    return keys_rows.template operand<false>(at.first_key, at.keys, h);
  }
  __device__ void store(const MapBlock& at, std::int64_t h, std::int64_t i,
                        std::int64_t e, float sum) const {
    out.row(at.first_query + i, h)[e] = T(scale * sum);
  }
};

// Key rows = scale maps^T (query rows).
template <typename T, typename Maps>
struct KeyForm {
  Maps maps;
  TokenRows<T> query_rows, out;
  float scale;

  EA_HOST_DEVICE ProductSize size(std::int64_t queries,
                                  std::int64_t keys) const {
    return {keys, out.width, queries};
  }
  __device__ auto a(const MapBlock& at, std::int64_t h) const {
    return maps.template operand<false>(at, h);
  }
  __device__ auto b(const MapBlock& at, std::int64_t h) const {
    return query_rows.template operand<false>(at.first_query, at.queries, h);
  }
  __device__ void store(const MapBlock& at, std::int64_t h, std::int64_t j,
                        std::int64_t e, float sum) const {
    out.row(at.first_key + j, h)[e] = T(scale * sum);
  }
};

// Stores scale sum as E.
template <typename E>
struct StoreScaled {
  E* to;
  float scale;
  __device__ void operator()(std::int64_t cell, bool exists, float sum) const {
    to[cell] = E(exists ? scale * sum : 0.0f);
  }
};

}  // namespace ea::cuda
