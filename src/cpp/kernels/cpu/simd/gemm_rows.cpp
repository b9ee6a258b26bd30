// SIMD products in which each row is summed by itself
// (kernels/cpu/gemm_rows.h).
//
// A sum stays in one lane of a register while the whole depth runs, in its
// order: its bits depend on a row of a and a column of b alone, not on how many
// rows there are or how they are divided into tiles.
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
    if (p.transpose_b) {
      pack_transposed(b + col * p.b_stride, p.b_stride, p.k, cols, panel);
    } else {
      pack(b + col, p.b_stride, p.k, cols, panel);
    }
  });
}

// How a product is partitioned: by its shape alone.
struct RowJobs {
  static constexpr std::int64_t kMaxRows = 16 * kTileRows;
  std::int64_t down, across, panels;

  explicit EA_INLINE RowJobs(const MatMulProblem& p) {
    constexpr std::int64_t kJobs = 8;
    constexpr std::int64_t kSmall = 1 << 20;  // multiply-adds worth a job
    panels = ceil_div(p.n, kPanel);
    down = ceil_div(p.m, kMaxRows);
    const std::int64_t worth = p.m * p.n * p.k / kSmall + 1;
    across = ceil_div(worth < kJobs ? worth : kJobs, down);
    if (across > panels) across = panels;
  }
};

// One row in kRowPanels whole panels at once: as many sums as hide the latency
// of their additions.
constexpr int kRowPanels = 4;

void one_row(const float* a, const float* packed, std::int64_t depth,
             float* sums) {
  const std::int64_t next = depth * kPanel;  // panel
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
      store(sums + i * kPanel + v * kLanes, sum[i][v]);
    }
  }
}

constexpr std::int64_t kLine = 16;  // floats

// kRows rows in one whole panel. A line of `ahead` is fetched for each step of
// the depth: few rows would else wait for the memory of every panel.
template <int kRows>
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
      const Vf x = set(a[i / 3 * three + i % 3 * stride + k]);
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
      store(sums + i * kPanel + v * kLanes, sum[i][v]);
    }
  }
}

// `rows` rows in one whole panel, while the next one is fetched.
void whole_panel(Factor a, const float* packed, std::int64_t rows,
                 std::int64_t depth, float* sums) {
  const std::int64_t blocks = ceil_div(rows, kTileRows);
  const float* next = packed + depth * kPanel;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t i = rows * block / blocks;
    const float* at = a.data + i * a.row;
    float* to = sums + i * kPanel;
    const float* ahead =
        block < kPanel / kLine ? next + block * depth * kLine : packed;
#define EA_ROWS(R)                                    \
  case R:                                             \
    few_rows<R>(at, a.row, packed, depth, ahead, to); \
    break
    switch (rows * (block + 1) / blocks - i) {
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

// `rows` rows of y from row `row` on, in the panels [first, last).
template <typename T>
void row_block(const cpu::RowProduct::Args& args, std::int64_t row,
               std::int64_t rows, std::int64_t first, std::int64_t last) {
  const MatMulProblem& p = args.problem;
  constexpr bool kWiden = sizeof(T) < sizeof(float);
  const Scratch wide(kWiden ? rows * p.k * sizeof(float) : 0);
  const Factor a = factor(static_cast<const T*>(p.a) + row * p.a_stride,
                          p.a_stride, rows, p.k, wide.template as<float>());
  float sums[RowJobs::kMaxRows * kPanel];
  constexpr std::int64_t kWide = kRowPanels * kPanel;
  for (std::int64_t col = first * kPanel; col < last * kPanel && col < p.n;) {
    const bool wide =
        rows == 1 && col + kWide <= last * kPanel && col + kWide <= p.n;
    const std::int64_t left = p.n - col;
    const std::int64_t cols = wide ? kWide : left < kPanel ? left : kPanel;
    const float* packed = args.panels + col * p.k;
    if (wide) {
      one_row(a.data, packed, p.k, sums);
    } else if (cols == kPanel) {
      whole_panel(a, packed, rows, p.k, sums);
    } else {
      multiply(a, packed, rows, p.k, cols, 1.0f, sums, kPanel);
    }
    const T* bias =
        p.bias == nullptr ? nullptr : static_cast<const T*>(p.bias) + col;
    T* y = static_cast<T*>(p.y) + row * p.n + col;
    for (std::int64_t i = 0; i < rows; ++i) {
      for_vectors(cols, [&](std::int64_t j, auto part) {
        Vf sum = load(sums + i * kPanel + j, part);
        if (bias != nullptr) sum += load(bias + j, part);
        store(y + i * p.n + j, sum, part);
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
    const std::int64_t row = p.m * i / jobs.down;
    row_block<T>(args, row, p.m * (i + 1) / jobs.down - row,
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
