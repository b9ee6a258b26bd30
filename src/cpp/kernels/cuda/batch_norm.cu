// Batch normalisation: sums over chunks of rows; the affine map, where each
// thread has a pack of columns in a few rows.
#include <algorithm>

#include "kernels/batch_norm.h"
#include "kernels/cuda/column_chunks.cuh"
#include "kernels/cuda/run.h"
#include "kernels/cuda/vec.cuh"

namespace ea::cuda {

namespace {

constexpr int kThreads = 128;
constexpr std::int64_t kRowsOfThread = 8;

template <typename T>
struct ValueTerms {
  static constexpr int kSums = 1;
  const T* x;
  std::int64_t width;

  __device__ void operator()(std::int64_t row, std::int64_t column,
                             float (&values)[kSums]) const {
    values[0] = static_cast<float>(x[row * width + column]);
  }
};

template <typename T>
struct SquareTerms {
  static constexpr int kSums = 1;
  const T* x;
  const float* mean;
  std::int64_t width;

  __device__ void operator()(std::int64_t row, std::int64_t column,
                             float (&values)[kSums]) const {
    const float centred =
        static_cast<float>(x[row * width + column]) - mean[column];
    values[0] = centred * centred;
  }
};

// Terms dy and dy h, h = (x - mean) rstd; with a bias, only where y > 0.
template <typename T>
struct GradientTerms {
  static constexpr int kSums = 2;
  const T *dy, *x, *weight, *bias;
  const float *mean, *rstd;
  std::int64_t width;

  __device__ void operator()(std::int64_t row, std::int64_t column,
                             float (&values)[kSums]) const {
    float d = static_cast<float>(dy[row * width + column]);
    const float s = static_cast<float>(x[row * width + column]);
    const float h = (s - mean[column]) * rstd[column];
    if (bias != nullptr && !(h * static_cast<float>(weight[column]) +
                                 static_cast<float>(bias[column]) >
                             0.0f)) {
      d = 0.0f;
    }
    values[0] = d;
    values[1] = d * h;
  }
};

// Distribution of a matrix's packs: adjacent threads take adjacent packs of a
// row, then those of the next row. A thread's rows are `step` apart; every
// column has at least one thread.
struct Dealt {
  std::int64_t rows, width, packs, step;

  Dealt(std::int64_t rows_, std::int64_t width_, int pack)
      : rows(rows_),
        width(width_),
        packs((width_ + pack - 1) / pack),
        step(std::max<std::int64_t>(
            1, (rows_ + kRowsOfThread - 1) / kRowsOfThread)) {}

  unsigned blocks() const { return blocks_for(packs * step, kThreads); }
};

// Pack of columns of a thread, and its first row.
template <typename T>
struct Mine {
  std::int64_t column, count, first;

  __device__ explicit Mine(const Dealt& dealt) {
    const std::int64_t me = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
    column = me % dealt.packs * kPack<T>;
    count = dealt.width - column;
    first = me / dealt.packs;
  }
  __device__ bool out_of(const Dealt& dealt) const {
    return first >= dealt.step;
  }
  // Returns whether this thread, one per column, writes the column's results.
  __device__ bool writes() const { return first == 0; }

  // Loads a number for each column, 0 beyond the last.
  template <typename E>
  __device__ void load(const E* from, float (&values)[kPack<T>]) const {
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) {
      values[k] = k < count ? static_cast<float>(from[column + k]) : 0.0f;
    }
  }
  template <typename E>
  __device__ void store(const float (&values)[kPack<T>], E* to) const {
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) {
      if (k < count) to[column + k] = E(values[k]);
    }
  }
};

__global__ void __launch_bounds__(kThreads)
    move_kernel(const float* now, float* running, std::int64_t width, float old,
                float fresh) {
  const std::int64_t c = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (c >= width) return;
  const float moved = old * running[c] + fresh * now[c];
  if (0.0f * moved == 0.0f) running[c] = moved;  // finite
}

template <typename T>
struct ForwardParams {
  const T *x, *weight, *bias;
  const float *mean, *variance;
  const T* residual;  // or null
  T* y;
  float* rstd;
  float eps;
  bool rectify, aligned;
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(ForwardParams<T> p, Dealt dealt) {
  const Mine<T> mine(dealt);
  if (mine.out_of(dealt)) return;
  float mean[kPack<T>], rstd[kPack<T>], weight[kPack<T>], bias[kPack<T>];
  mine.load(p.mean, mean);
  mine.load(p.variance, rstd);
  mine.load(p.weight, weight);
  mine.load(p.bias, bias);
#pragma unroll
  for (int k = 0; k < kPack<T>; ++k) rstd[k] = 1.0f / sqrtf(rstd[k] + p.eps);
  if (mine.writes()) mine.store(rstd, p.rstd);
  for (std::int64_t row = mine.first; row < dealt.rows; row += dealt.step) {
    const std::int64_t at = row * dealt.width + mine.column;
    float v[kPack<T>];
    float more[kPack<T>] = {};
    load_pack(p.x + at, mine.count, p.aligned, v);
    if (p.residual != nullptr) {
      load_pack(p.residual + at, mine.count, p.aligned, more);
    }
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) {
      v[k] = (v[k] - mean[k]) * rstd[k] * weight[k] + bias[k] + more[k];
      if (p.rectify && v[k] < 0.0f) v[k] = 0.0f;
    }
    store_pack(p.y + at, mine.count, p.aligned, v);
  }
}

template <typename T>
struct BackwardParams {
  const T *dy, *x, *weight, *bias;  // bias: or null
  const float *mean, *rstd;
  const float *sum, *sum_h;  // sums over the rows of dy and of dy h
  T *dx, *dweight, *dbias;
  bool of_batch, aligned;
};

// dx = weight rstd (dy - mean(dy) - h mean(dy h)): kernels/ref/batch_norm.cpp
// derives it.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(BackwardParams<T> p, Dealt dealt) {
  const Mine<T> mine(dealt);
  if (mine.out_of(dealt)) return;
  float mean[kPack<T>], rstd[kPack<T>], weight[kPack<T>], scale[kPack<T>];
  float bias[kPack<T>] = {}, mean_dy[kPack<T>], mean_dyh[kPack<T>];
  mine.load(p.mean, mean);
  mine.load(p.rstd, rstd);
  mine.load(p.weight, weight);
  if (p.bias != nullptr) mine.load(p.bias, bias);
  mine.load(p.sum, mean_dy);
  mine.load(p.sum_h, mean_dyh);
  if (mine.writes()) {
    mine.store(mean_dy, p.dbias);
    mine.store(mean_dyh, p.dweight);
  }
  const auto n = static_cast<float>(dealt.rows);
#pragma unroll
  for (int k = 0; k < kPack<T>; ++k) {
    scale[k] = weight[k] * rstd[k];
    mean_dy[k] = p.of_batch ? mean_dy[k] / n : 0.0f;
    mean_dyh[k] = p.of_batch ? mean_dyh[k] / n : 0.0f;
  }
  for (std::int64_t row = mine.first; row < dealt.rows; row += dealt.step) {
    const std::int64_t at = row * dealt.width + mine.column;
    float g[kPack<T>], h[kPack<T>];
    load_pack(p.dy + at, mine.count, p.aligned, g);
    load_pack(p.x + at, mine.count, p.aligned, h);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) {
      h[k] = (h[k] - mean[k]) * rstd[k];
      if (p.bias != nullptr && !(h[k] * weight[k] + bias[k] > 0.0f)) {
        g[k] = 0.0f;
      }
      g[k] = scale[k] * (g[k] - mean_dy[k] - h[k] * mean_dyh[k]);
    }
    store_pack(p.dx + at, mine.count, p.aligned, g);
  }
}

template <typename T>
void statistics_of(const BatchStatistics::Args& args) {
  const std::int64_t rows = args.x.dim(0), width = args.x.dim(1);
  const auto n = static_cast<float>(rows);
  const T* const x = args.x.as<T>();
  float* const mean = args.mean.as<float>();
  ColumnChunks(ValueTerms<T>{x, width}, rows, width).finish(0, mean, n);
  ColumnChunks(SquareTerms<T>{x, mean, width}, rows, width)
      .finish(0, args.variance.as<float>(), n);
}

template <typename T>
void forward_of(const BatchNormForward::Args& args) {
  const Dealt dealt(args.x.dim(0), args.x.dim(1), kPack<T>);
  ForwardParams<T> p{args.x.as<T>(),
                     args.weight.as<T>(),
                     args.bias.as<T>(),
                     args.mean.as<float>(),
                     args.variance.as<float>(),
                     args.residual.as<T>(),
                     args.y.as<T>(),
                     args.rstd.as<float>(),
                     static_cast<float>(args.eps),
                     args.rectify,
                     false};
  p.aligned = packs_aligned(p.x, dealt.width) && packs_aligned(p.y) &&
              packs_aligned(p.residual);
  launch(current_stream(), dealt.blocks(), kThreads, 0, forward_kernel<T>, p,
         dealt);
}

template <typename T>
void backward_of(const BatchNormBackward::Args& args) {
  const Dealt dealt(args.x.dim(0), args.x.dim(1), kPack<T>);
  const Scratch<float> totals(current_stream(), 2 * dealt.width);
  BackwardParams<T> p{args.dy.as<T>(),
                      args.x.as<T>(),
                      args.weight.as<T>(),
                      args.bias.as<T>(),
                      args.mean.as<float>(),
                      args.rstd.as<float>(),
                      totals.data(),
                      totals.data() + dealt.width,
                      args.dx.as<T>(),
                      args.dweight.as<T>(),
                      args.dbias.as<T>(),
                      args.of_batch,
                      false};
  p.aligned = packs_aligned(p.dy, dealt.width) && packs_aligned(p.x) &&
              packs_aligned(p.dx);
  const ColumnChunks sums(GradientTerms<T>{p.dy, p.x, p.weight, p.bias, p.mean,
                                           p.rstd, dealt.width},
                          dealt.rows, dealt.width);
  sums.finish(0, totals.data());
  sums.finish(1, totals.data() + dealt.width);
  launch(current_stream(), dealt.blocks(), kThreads, 0, backward_kernel<T>, p,
         dealt);
}

}  // namespace

EA_RUN_CUDA(BatchStatistics, statistics_of, x)

template <>
void run<MoveAverage>(const MoveAverage::Args& args) {
  const std::int64_t width = args.running.numel();
  launch(current_stream(), blocks_for(width, kThreads), kThreads, 0,
         move_kernel, args.now.as<const float>(), args.running.as<float>(),
         width, static_cast<float>(1 - args.momentum),
         static_cast<float>(args.momentum * args.factor));
}

EA_RUN_CUDA(BatchNormForward, forward_of, x)
EA_RUN_CUDA(BatchNormBackward, backward_of, x)

}  // namespace ea::cuda
