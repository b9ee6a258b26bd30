// Reference batch normalisation: statistics in two passes, channel by channel.
#include <cmath>
#include <vector>

#include "kernels/batch_norm.h"
#include "kernels/ref/run.h"

namespace ea::ref {

namespace {

template <typename T>
void statistics_of(const BatchStatistics::Args& args) {
  using A = Accumulator<T>;
  const std::int64_t rows = args.x.dim(0);
  const std::int64_t width = args.x.dim(1);
  const T* x = args.x.as<T>();
  for (std::int64_t c = 0; c < width; ++c) {
    A mean = 0;
    for (std::int64_t r = 0; r < rows; ++r) mean += A(x[r * width + c]);
    mean /= A(rows);
    A variance = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const A centred = A(x[r * width + c]) - mean;
      variance += centred * centred;
    }
    args.mean.as<A>()[c] = mean;
    args.variance.as<A>()[c] = variance / A(rows);
  }
}

template <typename T>
void forward_of(const BatchNormForward::Args& args) {
  using A = Accumulator<T>;
  const std::int64_t width = args.x.dim(1);
  const A* mean = args.mean.as<A>();
  const A* variance = args.variance.as<A>();
  A* rstd = args.rstd.as<A>();
  for (std::int64_t c = 0; c < width; ++c) {
    rstd[c] = 1 / std::sqrt(variance[c] + A(args.eps));
  }
  const T* x = args.x.as<T>();
  const T* residual = args.residual.as<T>();
  for (std::int64_t i = 0; i < args.x.numel(); ++i) {
    const std::int64_t c = i % width;
    A y = (A(x[i]) - mean[c]) * rstd[c] * A(args.weight.as<T>()[c]) +
          A(args.bias.as<T>()[c]);
    if (residual != nullptr) y += A(residual[i]);
    args.y.as<T>()[i] = T(args.rectify && y < 0 ? A(0) : y);
  }
}

// As in ref/layer_norm.cpp, with rows instead of columns: if the statistics are
// the batch's own, dh_j/dx_i = rstd ([i = j] - 1/n - h_i h_j / n), and with g =
// dy weight (one weight per channel),
//   dx_i = rstd (g_i - mean(g) - h_i mean(g h)).
template <typename T>
void backward_of(const BatchNormBackward::Args& args) {
  using A = Accumulator<T>;
  const std::int64_t rows = args.x.dim(0);
  const std::int64_t width = args.x.dim(1);
  const T* x = args.x.as<T>();
  for (std::int64_t c = 0; c < width; ++c) {
    const A mean = args.mean.as<A>()[c];
    const A rstd = args.rstd.as<A>()[c];
    const A weight = A(args.weight.as<T>()[c]);
    // Returns dy, or 0 where y was rectified to 0.
    const auto arriving = [&](std::int64_t i, A h) {
      const bool passes =
          !args.bias.defined() || h * weight + A(args.bias.as<T>()[c]) > 0;
      return passes ? A(args.dy.as<T>()[i]) : A(0);
    };
    A sum = 0;
    A sum_h = 0;
    for (std::int64_t i = c; i < rows * width; i += width) {
      const A h = (A(x[i]) - mean) * rstd;
      const A d = arriving(i, h);
      sum += d;
      sum_h += d * h;
    }
    args.dbias.as<T>()[c] = T(sum);
    args.dweight.as<T>()[c] = T(sum_h);
    const A scale = weight * rstd;
    const A mean_dy = args.of_batch ? sum / A(rows) : A(0);
    const A mean_dyh = args.of_batch ? sum_h / A(rows) : A(0);
    for (std::int64_t i = c; i < rows * width; i += width) {
      const A h = (A(x[i]) - mean) * rstd;
      args.dx.as<T>()[i] = T(scale * (arriving(i, h) - mean_dy - h * mean_dyh));
    }
  }
}

template <typename T>
void move_average_of(const MoveAverage::Args& args) {
  using A = Accumulator<T>;
  const A* now = args.now.as<A>();
  A* running = args.running.as<A>();
  for (std::int64_t c = 0; c < args.running.numel(); ++c) {
    const A moved = A(1 - args.momentum) * running[c] +
                    A(args.momentum * args.factor) * now[c];
    if (std::isfinite(moved)) running[c] = moved;
  }
}

}  // namespace

EA_RUN_REF(BatchStatistics, statistics_of, x)
EA_RUN_REF(MoveAverage, move_average_of, running)
EA_RUN_REF(BatchNormForward, forward_of, x)
EA_RUN_REF(BatchNormBackward, backward_of, x)

}  // namespace ea::ref
