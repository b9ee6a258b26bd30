// Partition of one matrix product into tiles.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/gemm.h"

namespace ea::onednn {

using Problem = MatMulProblem;

inline std::int64_t ceil_div(std::int64_t n, std::int64_t step) {
  return (n + step - 1) / step;
}

inline std::int64_t round_up(std::int64_t n, std::int64_t step) {
  return ceil_div(n, step) * step;
}

// A grid of equal tiles over the output (the last row and column of tiles may
// be smaller). It depends on the shapes alone: never on the thread count.
struct Tiles {
  std::int64_t rows, cols;    // size of a tile
  std::int64_t down, across;  // number of tiles
  std::int64_t count() const { return down * across; }
};

// Maximum size of a tile, the step of its columns, and the multiply-adds that
// are worth a job.
struct TileLimits {
  std::int64_t rows, cols, col_step, work;
};

// Partitions y into tiles of at most this size, and these into smaller ones
// until there are enough jobs: down if is_tall(rows, cols), else across.
template <typename IsTall>
Tiles tiles_within(const Problem& p, const TileLimits& most, IsTall is_tall) {
  constexpr std::int64_t kJobs = 8, kRowStep = 16;
  std::int64_t down = ceil_div(p.m, most.rows);
  std::int64_t across = ceil_div(p.n, most.cols);
  const auto rows = [&] { return round_up(ceil_div(p.m, down), kRowStep); };
  const auto cols = [&] {
    return round_up(ceil_div(p.n, across), most.col_step);
  };
  while (p.batch * down * across < kJobs && rows() * cols() * p.k > most.work) {
    (is_tall(rows(), cols()) ? down : across) *= 2;
  }
  return {std::min(rows(), p.m), std::min(cols(), p.n), ceil_div(p.m, rows()),
          ceil_div(p.n, cols())};
}

struct Rectangle {
  std::int64_t row, col, rows, cols;
};

inline Rectangle tile_at(const Problem& p, const Tiles& t, std::int64_t index) {
  const std::int64_t row = index / t.across * t.rows;
  const std::int64_t col = index % t.across * t.cols;
  return {row, col, std::min(t.rows, p.m - row), std::min(t.cols, p.n - col)};
}

}  // namespace ea::onednn
