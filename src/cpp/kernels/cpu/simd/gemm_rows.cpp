// SIMD matrix products whose rows are summed independently
// (kernels/cpu/gemm_rows.h).
#include <cstring>

#include "kernels/cpu/gemm_rows.h"
#include "kernels/cpu/simd/factors-inl.h"
#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/cpu/simd/row_tiles-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// Packs one panel of b: `cols` columns from `col`.
template <typename T, typename Cells>
struct PackedPanel {
  static void fill(const MatMulProblem& p, std::int64_t col, std::int64_t cols,
                   float* panel) {
    const T* b = static_cast<const T*>(p.b) + b_offset(p, 0, col);
    if (p.transpose_b) {
      pack_transposed<kTileVectors>(b, p.b_stride, p.k, cols, panel);
    } else {
      pack<kTileVectors>(b, p.b_stride, p.k, cols, panel);
    }
  }
};

#if defined(__AVX512F__)
template <>
struct PackedPanel<bfloat16, Pairs> {
  static void fill(const MatMulProblem& p, std::int64_t col, std::int64_t cols,
                   float* panel) {
    const auto* b = static_cast<const bfloat16*>(p.b) + b_offset(p, 0, col);
    const std::int64_t cells = ceil_div(p.k, 2);
    if (p.transpose_b) {
      const Scratch own(
          in_pairs(p.b_stride, p.k) ? 0 : cols * cells * sizeof(float));
      const Factor rows = pair_rows(b, p.b_stride, cols, p.k, own.as<float>());
      return pack_transposed<kTileVectors>(rows.data, rows.row, cells, cols,
                                           panel);
    }
    for (std::int64_t k = 0; k < cells; ++k, panel += kTileColumns) {
      const bfloat16* first = b + 2 * k * p.b_stride;
      for_vectors(cols, [&](std::int64_t j, auto part) {
        const Vf second =
            2 * k + 1 < p.k ? load(first + p.b_stride + j, part) : set(0);
        store(panel + j, pair_of(load(first + j, part), second), part);
      });
    }
  }
};
#endif

template <typename T, typename Cells>
void run_pack(const cpu::PackRowPanels::Args& args) {
  const MatMulProblem& p = args.problem;
  const std::int64_t depth = ceil_div(p.k, Cells::kValues);
  parallel_for(ceil_div(p.n, kTileColumns), [&](std::int64_t job) {
    const std::int64_t col = job * kTileColumns;
    const std::int64_t cols =
        p.n - col < kTileColumns ? p.n - col : kTileColumns;
    float* panel = args.panels + col * depth;
    if (cols < kTileColumns) {
      std::memset(panel, 0, depth * kTileColumns * sizeof(float));
    }
    PackedPanel<T, Cells>::fill(p, col, cols, panel);
  });
}

// Partition of a product, by its shape only. Each job repacks its rows of a
// transposed a once, so there are few jobs across then.
struct RowJobs {
  static constexpr std::int64_t kMaxBlocks = 16;
  static constexpr std::int64_t kMaxRows = kMaxBlocks * kTileHeight;
  std::int64_t blocks, down, across, panels;

  explicit EA_INLINE RowJobs(const MatMulProblem& p) {
    const std::int64_t most = p.transpose_a ? 8 : 48;
    constexpr std::int64_t kSmall = 1 << 22;  // multiply-adds worth a job
    constexpr std::int64_t kRead = 1 << 17;   // elements of b worth a job
    constexpr std::int64_t kEven = 4;         // threads to balance `down` for
    panels = ceil_div(p.n, kTileColumns);
    blocks = ceil_div(p.m, std::int64_t{kTileHeight});
    down = ceil_div(blocks, kMaxBlocks);
    if (down > kEven) down = ceil_div(down, kEven) * kEven;
    // A product of few rows is bound by reading b.
    const std::int64_t by_work = p.m * p.n * p.k / kSmall;
    const std::int64_t by_read = p.n * p.k / kRead;
    const std::int64_t worth =
        (by_work > by_read ? by_work : by_read) / 2 * 2 + 2;
    across = ceil_div(worth < most ? worth : most, down);
    across = ceil_div(panels, ceil_div(panels, across));
  }
};

// Repacks a transposed a [depth, rows] for tiles: blocks of rows, each [depth,
// kTileHeight].
template <typename T>
void turn(const T* a, std::int64_t stride, std::int64_t rows,
          std::int64_t depth, float* turned) {
  constexpr std::int64_t kAhead = 8;
  const std::int64_t blocks = ceil_div(rows, std::int64_t{kTileHeight});
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
      float* to = turned + block * turned_block(depth) + k * kTileHeight;
      if (count == kTileHeight) {
        for (int r = 0; r < kTileHeight; ++r) {
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

// Whole panels by which one_row() multiplies one row at once, `next` apart:
// enough sums to hide the latency of their additions.
constexpr int kRowPanels = 8 / kTileVectors;
constexpr std::int64_t kRowColumns = kRowPanels * kTileColumns;

template <typename Cells>
void one_row(const float* a, const float* packed, std::int64_t next,
             std::int64_t depth, bool add, float* sums) {
  Vf sum[kRowPanels][kTileVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kRowPanels; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) sum[i][v] = set(0);
  }
  for (std::int64_t k = 0; k < depth; ++k, packed += kTileColumns) {
    const Vf x = set(cell_at(a + k));
#pragma GCC unroll 4
    for (int i = 0; i < kRowPanels; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) {
        sum[i][v] =
            Cells::add(sum[i][v], x, load(packed + i * next + v * kLanes));
      }
    }
  }
  put_sums(sum, add, sums);
}

// Computes the sums [1, kRowColumns] of one row, as panel_sums() does.
template <typename Cells>
void row_sums(const float* a, const float* packed, std::int64_t depth, bool add,
              float* sums) {
  for (std::int64_t k = 0; k == 0 || k < depth; k += kStretch) {
    const std::int64_t count = depth - k < kStretch ? depth - k : kStretch;
    one_row<Cells>(a + k, packed + k * kTileColumns, depth * kTileColumns,
                   count, add || k > 0, sums);
  }
}

// Left factor of a job in float32, in place if possible.
template <typename T, typename Cells>
struct Left {
  static constexpr bool kWiden = sizeof(T) < sizeof(float);

  Left(const MatMulProblem& p, std::int64_t row, std::int64_t rows)
      : turned(p.transpose_a),
        copy(sizeof(float) *
             (turned   ? ceil_div(rows, kTileHeight) * turned_block(p.k)
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

#if defined(__AVX512F__)
// Left factor in pairs. A transposed a is not multiplied in pairs.
template <>
struct Left<bfloat16, Pairs> {
  static constexpr bool turned = false;

  Left(const MatMulProblem& p, std::int64_t row, std::int64_t rows)
      : copy(in_pairs(p.a_stride, p.k)
                 ? 0
                 : rows * ceil_div(p.k, 2) * sizeof(float)),
        factor(pair_rows(static_cast<const bfloat16*>(p.a) + row * p.a_stride,
                         p.a_stride, rows, p.k, copy.as<float>())) {}

  Scratch copy;
  Factor factor;
};
#endif

// Computes `rows` rows of y from row `row`, in the panels [first, last).
template <typename T, typename Cells>
void row_block(const cpu::RowProduct::Args& args, std::int64_t row,
               std::int64_t rows, std::int64_t first, std::int64_t last) {
  const MatMulProblem& p = args.problem;
  const Left<T, Cells> left(p, row, rows);
  const std::int64_t depth = ceil_div(p.k, Cells::kValues);
  const Factor& a = left.factor;
  float sums[RowJobs::kMaxRows * kTileColumns];
  for (std::int64_t col = first * kTileColumns;
       col < last * kTileColumns && col < p.n;) {
    const bool wide = rows == 1 && !left.turned &&
                      col + kRowColumns <= last * kTileColumns &&
                      col + kRowColumns <= p.n;
    const std::int64_t rest = p.n - col;
    const std::int64_t cols = wide                  ? kRowColumns
                              : rest < kTileColumns ? rest
                                                    : kTileColumns;
    const float* packed = args.panels + col * depth;
    T* y = static_cast<T*>(p.y) + row * args.y_stride + col;
    for (std::int64_t i = 0; args.add && i < rows; ++i) {
      for_vectors(cols, [&](std::int64_t j, auto part) {
        store(sums + i * kTileColumns + j,
              load(y + i * args.y_stride + j, part), part);
      });
    }
    if (wide) {
      row_sums<Cells>(a.data, packed, depth, args.add, sums);
    } else {
      (left.turned
           ? panel_sums<Cells, true>
           : panel_sums<Cells, false>)(a, packed, rows, depth, args.add, sums);
    }
    const T* bias =
        p.bias == nullptr ? nullptr : static_cast<const T*>(p.bias) + col;
    for (std::int64_t i = 0; i < rows; ++i) {
      for_vectors(cols, [&](std::int64_t j, auto part) {
        Vf sum = load(sums + i * kTileColumns + j, part);
        if (bias != nullptr) sum += load(bias + j, part);
        store(y + i * args.y_stride + j, sum, part);
      });
    }
    col += cols;
  }
}

template <typename T, typename Cells>
void run_product(const cpu::RowProduct::Args& args) {
  const MatMulProblem& p = args.problem;
  const RowJobs jobs(p);
  parallel_for(jobs.down * jobs.across, [&](std::int64_t job) {
    const std::int64_t i = job / jobs.across, j = job % jobs.across;
    const std::int64_t row = jobs.blocks * i / jobs.down * kTileHeight;
    const std::int64_t end = jobs.blocks * (i + 1) / jobs.down * kTileHeight;
    row_block<T, Cells>(args, row, (end < p.m ? end : p.m) - row,
                        jobs.panels * j / jobs.across,
                        jobs.panels * (j + 1) / jobs.across);
  });
}

}  // namespace

template <>
void run<cpu::PackRowPanels>(const cpu::PackRowPanels::Args& args) {
#if defined(__AVX512F__)
  if (args.pairs) return run_pack<bfloat16, Pairs>(args);
#endif
  if (args.dtype == DType::bf16) return run_pack<bfloat16, Floats>(args);
  run_pack<float, Floats>(args);
}

template <>
void run<cpu::RowProduct>(const cpu::RowProduct::Args& args) {
#if defined(__AVX512F__)
  if (args.pairs) return run_product<bfloat16, Pairs>(args);
#endif
  if (args.dtype == DType::bf16) return run_product<bfloat16, Floats>(args);
  run_product<float, Floats>(args);
}

}  // namespace ea::simd::EA_TARGET
