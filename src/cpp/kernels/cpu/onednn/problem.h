// Partition of one matrix product into tiles.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/gemm.h"

namespace ea::onednn {

using Problem = MatMulProblem;

// A grid of equal tiles over the output (the last row and column of tiles may
// be smaller). It depends on the shapes alone: never on the thread count.
struct Tiles {
  std::int64_t rows, cols;    // size of a tile
  std::int64_t down, across;  // number of tiles
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
