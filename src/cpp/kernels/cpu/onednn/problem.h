// One matrix product as plain numbers, and how it is cut into tiles.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/gemm.h"

namespace ea::onednn {

// y [m, n] = alpha op(a) op(b) + bias, `batch` times; strides in elements.
struct Problem {
  std::int64_t batch, m, n, k;
  const void* a;
  const void* b;
  const void* bias;  // null: none
  void* y;
  std::int64_t a_stride, b_stride;  // between stored rows
  std::int64_t a_batch, b_batch;    // between matrices
  bool transpose_a, transpose_b;
  float alpha;
};

Problem problem_of(const MatMul::Args& args);

// Element offsets of the operands of output tile (row, col), and of depth d.
inline std::int64_t a_offset(const Problem& p, std::int64_t row,
                             std::int64_t d) {
  return p.transpose_a ? d * p.a_stride + row : row * p.a_stride + d;
}
inline std::int64_t b_offset(const Problem& p, std::int64_t d,
                             std::int64_t col) {
  return p.transpose_b ? col * p.b_stride + d : d * p.b_stride + col;
}

// A grid of equal tiles over the output (the last row and column of tiles may
// be smaller). It depends on the shapes alone: never on the thread count.
struct Tiles {
  std::int64_t rows, cols;    // of a tile
  std::int64_t down, across;  // tiles
  std::int64_t count() const { return down * across; }
};

struct Rectangle {
  std::int64_t row, col, rows, cols;
};

inline Rectangle tile_at(const Problem& p, const Tiles& t, std::int64_t index) {
  const std::int64_t row = index / t.across * t.rows;
  const std::int64_t col = index % t.across * t.cols;
  return {row, col, std::min(t.rows, p.m - row), std::min(t.cols, p.n - col)};
}

}  // namespace ea::onednn
