// SIMD products in which each row is summed by itself
// (kernels/cpu/gemm_rows.h).
//
// A sum stays in one lane of a register while a stretch of the depth runs, in
// its order, and stretches are added in theirs: its bits depend on a row of a
// and a column of b alone, not on how many rows there are or how they are
// divided into tiles.
#include <cstring>

#include "kernels/cpu/gemm_rows.h"
#include "kernels/cpu/simd/factors-inl.h"
#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

template <typename T>
void run_pack(const cpu::PackRowPanels::Args& args) {
  const MatMulProblem& p = args.problem;
  const T* b = static_cast<const T*>(p.b);
  parallel_for(ceil_div(p.n, kPanel), [&](std::int64_t job) {
    const std::int64_t col = job * kPanel;
    const std::int64_t cols = p.n - col < kPanel ? p.n - col : kPanel;
    float* panel = args.panels + col * p.k;
    if (cols <= kPanel - kLanes) {
      std::memset(panel, 0, p.k * kPanel * sizeof(float));
    }
    if (p.transpose_b) {
      pack_transposed(b + col * p.b_stride, p.b_stride, p.k, cols, panel);
    } else {
      pack(b + col, p.b_stride, p.k, cols, panel);
    }
  });
}

// How a product is partitioned: by its shape alone. A transposed a is turned
// round once a job: few jobs across then.
struct RowJobs {
  static constexpr std::int64_t kMaxBlocks = 16;
  static constexpr std::int64_t kMaxRows = kMaxBlocks * kTileRows;
  std::int64_t blocks, down, across, panels;

  explicit EA_INLINE RowJobs(const MatMulProblem& p) {
    const std::int64_t most = p.transpose_a ? 8 : 48;
    constexpr std::int64_t kSmall = 1 << 20;  // multiply-adds worth a job
    constexpr std::int64_t kEven = 4;  // so many threads have as much to do
    panels = ceil_div(p.n, kPanel);
    blocks = ceil_div(p.m, std::int64_t{kTileRows});
    down = ceil_div(blocks, kMaxBlocks);
    if (down > kEven) down = ceil_div(down, kEven) * kEven;
    const std::int64_t worth = p.m * p.n * p.k / kSmall + 1;
    across = ceil_div(worth < most ? worth : most, down);
    if (across > panels) across = panels;
  }
};

// Where block `block` of `rows` rows begins: blocks are as even as they can be.
EA_INLINE std::int64_t block_begin(std::int64_t rows, std::int64_t block) {
  return rows * block / ceil_div(rows, std::int64_t{kTileRows});
}

constexpr std::int64_t kLine = 16;  // floats

// From one block of a turned a to the next; the line lets them fall onto
// different places of a cache.
EA_INLINE std::int64_t turned_block(std::int64_t depth) {
  return depth * kTileRows + kLine;
}

// Turns a transposed a [depth, rows] round, for tiles: blocks of rows, in each
// the depth with kTileRows rows side by side.
template <typename T>
void turn(const T* a, std::int64_t stride, std::int64_t rows,
          std::int64_t depth, float* turned) {
  constexpr std::int64_t kAhead = 8;
  const std::int64_t blocks = ceil_div(rows, std::int64_t{kTileRows});
  for (std::int64_t k = 0; k < depth; ++k) {
    const T* line = a + k * stride;
    if (k + kAhead < depth) {
      for (std::int64_t i = 0; i < rows; i += kLine) {
        __builtin_prefetch(line + kAhead * stride + i);
      }
    }
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t i = block_begin(rows, block);
      const std::int64_t count = block_begin(rows, block + 1) - i;
      float* to = turned + block * turned_block(depth) + k * kTileRows;
      if (count == kTileRows) {
        for (int r = 0; r < kTileRows; ++r) {
          to[r] = static_cast<float>(line[i + r]);
        }
      } else {
        for (std::int64_t r = 0; r < count; ++r) {
          to[r] = static_cast<float>(line[i + r]);
        }
      }
    }
  }
}

// Depth of a stretch: of a panel in the nearest cache, and the shorter the
// stretches the smaller the error of a long sum.
constexpr std::int64_t kStretch = 512;

// One row in kRowPanels whole panels at once, `next` apart, added to the sums:
// as many sums as hide the latency of their additions.
constexpr int kRowPanels = 4;

void one_row(const float* a, const float* packed, std::int64_t next,
             std::int64_t depth, float* sums) {
  Vf sum[kRowPanels][kPanelVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kRowPanels; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kPanelVectors; ++v) sum[i][v] = set(0);
  }
  for (std::int64_t k = 0; k < depth; ++k, packed += kPanel) {
    const Vf x = set(a[k]);
#pragma GCC unroll 4
    for (int i = 0; i < kRowPanels; ++i) {
#pragma GCC unroll 2
      for (int v = 0; v < kPanelVectors; ++v) {
        sum[i][v] = fma(x, load(packed + i * next + v * kLanes), sum[i][v]);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kRowPanels; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kPanelVectors; ++v) {
      float* at = sums + i * kPanel + v * kLanes;
      store(at, load(at) + sum[i][v]);
    }
  }
}

// kRows rows in one panel, added to the sums. A line of `ahead` is fetched for
// each step of the depth: few rows would else wait for the memory of every
// panel.
template <int kRows, bool kTurned>
void few_rows(const float* a, std::int64_t stride, const float* packed,
              std::int64_t depth, const float* ahead, float* sums) {
  Vf sum[kRows][kPanelVectors];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kPanelVectors; ++v) sum[i][v] = set(0);
  }
  const std::int64_t three = 3 * stride;
  for (std::int64_t k = 0; k < depth; ++k, packed += kPanel) {
    __builtin_prefetch(ahead + k * kLine);
    Vf column[kPanelVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kPanelVectors; ++v) {
      column[v] = load(packed + v * kLanes);
    }
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      const Vf x = set(kTurned ? a[k * kTileRows + i]
                               : a[i / 3 * three + i % 3 * stride + k]);
#pragma GCC unroll 2
      for (int v = 0; v < kPanelVectors; ++v) {
        sum[i][v] = fma(x, column[v], sum[i][v]);
      }
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kPanelVectors; ++v) {
      float* at = sums + i * kPanel + v * kLanes;
      store(at, load(at) + sum[i][v]);
    }
  }
}

// `rows` rows in a stretch of one panel, from depth k on, while the next panel
// is fetched.
template <bool kTurned>
void stretch(const Factor& a, const float* packed, std::int64_t rows,
             std::int64_t depth, std::int64_t k, float* sums) {
  const std::int64_t count = depth - k < kStretch ? depth - k : kStretch;
  const std::int64_t blocks = ceil_div(rows, kTileRows);
  const float* const from = packed + k * kPanel;
  const float* const next = packed + depth * kPanel + k * kLine;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t i = block_begin(rows, block);
    const float* at = kTurned
                          ? a.data + block * turned_block(depth) + k * kTileRows
                          : a.data + i * a.row + k;
    float* to = sums + i * kPanel;
    const float* ahead =
        block < kPanel / kLine ? next + block * depth * kLine : from;
#define EA_ROWS(R)                                           \
  case R:                                                    \
    few_rows<R, kTurned>(at, a.row, from, count, ahead, to); \
    break
    switch (block_begin(rows, block + 1) - i) {
      EA_ROWS(1);
      EA_ROWS(2);
      EA_ROWS(3);
      EA_ROWS(4);
      EA_ROWS(5);
      EA_ROWS(6);
#if defined(__AVX512F__)
      EA_ROWS(7);
      EA_ROWS(8);
      EA_ROWS(9);
      EA_ROWS(10);
      EA_ROWS(11);
      EA_ROWS(12);
#endif
      default:
        break;
    }
#undef EA_ROWS
  }
}

// The left factor of a job in float32: as it lies where that can be.
template <typename T>
struct Left {
  static constexpr bool kWiden = sizeof(T) < sizeof(float);

  Left(const MatMulProblem& p, std::int64_t row, std::int64_t rows)
      : turned(p.transpose_a),
        copy(sizeof(float) *
             (turned   ? ceil_div(rows, kTileRows) * turned_block(p.k)
              : kWiden ? rows * p.k
                       : 0)) {
    const T* a = static_cast<const T*>(p.a) + a_offset(p, row, 0);
    float* own = copy.template as<float>();
    if (turned) {
      turn(a, p.a_stride, rows, p.k, own);
      factor = {own, 0, 1};
    } else {
      factor = simd::EA_TARGET::factor(a, p.a_stride, rows, p.k, own);
    }
  }

  bool turned;
  Scratch copy;
  Factor factor;
};

// `rows` rows of y from row `row` on, in the panels [first, last).
template <typename T>
void row_block(const cpu::RowProduct::Args& args, std::int64_t row,
               std::int64_t rows, std::int64_t first, std::int64_t last) {
  const MatMulProblem& p = args.problem;
  const Left<T> left(p, row, rows);
  const Factor& a = left.factor;
  const Vf zero = set(0);
  float sums[RowJobs::kMaxRows * kPanel];
  constexpr std::int64_t kWide = kRowPanels * kPanel;
  for (std::int64_t col = first * kPanel; col < last * kPanel && col < p.n;) {
    const bool wide = rows == 1 && !left.turned &&
                      col + kWide <= last * kPanel && col + kWide <= p.n;
    const std::int64_t rest = p.n - col;
    const std::int64_t cols = wide ? kWide : rest < kPanel ? rest : kPanel;
    const float* packed = args.panels + col * p.k;
    T* y = static_cast<T*>(p.y) + row * args.y_stride + col;
    for (std::int64_t i = 0; i < rows; ++i) {
      for_vectors(cols, [&](std::int64_t j, auto part) {
        const Vf from = args.add ? load(y + i * args.y_stride + j, part) : zero;
        store(sums + i * kPanel + j, from, part);
      });
    }
    for (std::int64_t k = 0; k < p.k; k += kStretch) {
      const std::int64_t count = p.k - k < kStretch ? p.k - k : kStretch;
      if (wide) {
        one_row(a.data + k, packed + k * kPanel, p.k * kPanel, count, sums);
      } else {
        (left.turned ? stretch<true> : stretch<false>)(a, packed, rows, p.k, k,
                                                       sums);
      }
    }
    const T* bias =
        p.bias == nullptr ? nullptr : static_cast<const T*>(p.bias) + col;
    for (std::int64_t i = 0; i < rows; ++i) {
      for_vectors(cols, [&](std::int64_t j, auto part) {
        Vf sum = load(sums + i * kPanel + j, part);
        if (bias != nullptr) sum += load(bias + j, part);
        store(y + i * args.y_stride + j, sum, part);
      });
    }
    col += cols;
  }
}

template <typename T>
void run_product(const cpu::RowProduct::Args& args) {
  const MatMulProblem& p = args.problem;
  const RowJobs jobs(p);
  parallel_for(jobs.down * jobs.across, [&](std::int64_t job) {
    const std::int64_t i = job / jobs.across, j = job % jobs.across;
    const std::int64_t row = jobs.blocks * i / jobs.down * kTileRows;
    const std::int64_t end = jobs.blocks * (i + 1) / jobs.down * kTileRows;
    row_block<T>(args, row, (end < p.m ? end : p.m) - row,
                 jobs.panels * j / jobs.across,
                 jobs.panels * (j + 1) / jobs.across);
  });
}

}  // namespace

template <>
void run<cpu::PackRowPanels>(const cpu::PackRowPanels::Args& args) {
  if (args.dtype == DType::bf16) return run_pack<bfloat16>(args);
  run_pack<float>(args);
}

template <>
void run<cpu::RowProduct>(const cpu::RowProduct::Args& args) {
  if (args.dtype == DType::bf16) return run_product<bfloat16>(args);
  run_product<float>(args);
}

}  // namespace ea::simd::EA_TARGET
