// Reference layer normalisation: statistics in two passes, row by row.
#include <cmath>
#include <vector>

#include "kernels/layer_norm.h"
#include "kernels/ref/dropout.h"
#include "kernels/ref/run.h"

namespace ea::ref {

namespace {

template <typename T>
void forward_of(const LayerNormForward::Args& args) {
  using A = Accumulator<T>;
  const std::int64_t rows = args.x.dim(0);
  const std::int64_t width = args.x.dim(1);
  const T* weight = args.weight.as<T>();
  const T* bias = args.bias.as<T>();
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* s = args.x.as<T>() + row * width;
    if (args.residual.defined()) {
      // The statistics are of the rounded sum, which the backward pass reads.
      const T* residual = args.residual.as<T>() + row * width;
      T* total = args.sum.as<T>() + row * width;
      for (std::int64_t i = 0; i < width; ++i) {
        const T x = args.p > 0.0 ? dropped(s[i], row * width + i, args.p,
                                           args.seed, args.stream)
                                 : s[i];
        total[i] = T(A(x) + A(residual[i]));
      }
      s = total;
    }
    A mean = 0;
    for (std::int64_t i = 0; i < width; ++i) mean += A(s[i]);
    mean /= A(width);
    A variance = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      const A centred = A(s[i]) - mean;
      variance += centred * centred;
    }
    variance /= A(width);
    const A rstd = 1 / std::sqrt(variance + A(args.eps));
    args.mean.as<A>()[row] = mean;
    args.rstd.as<A>()[row] = rstd;
    T* y = args.y.as<T>() + row * width;
    for (std::int64_t i = 0; i < width; ++i) {
      y[i] = T((A(s[i]) - mean) * rstd * A(weight[i]) + A(bias[i]));
    }
  }
}

// With h = (s - mean) rstd and g = dy weight, the row's Jacobian is
//   dh_j/ds_i = rstd ([i = j] - 1/n - h_i h_j / n):
// the mean gives the term -1/n, d rstd/ds_i = -rstd^2 h_i / n the last term. So
//   ds_i = sum_j g_j dh_j/ds_i = rstd (g_i - mean(g) - h_i mean(g h)).
template <typename T>
void backward_of(const LayerNormBackward::Args& args) {
  using A = Accumulator<T>;
  const std::int64_t rows = args.x.dim(0);
  const std::int64_t width = args.x.dim(1);
  const T* weight = args.weight.as<T>();
  std::vector<A> dweight(static_cast<std::size_t>(width));
  std::vector<A> dbias(static_cast<std::size_t>(width));
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* dy = args.dy.as<T>() + row * width;
    const T* s = args.x.as<T>() + row * width;
    T* dx = args.dx.as<T>() + row * width;
    const A mean = args.mean.as<A>()[row];
    const A rstd = args.rstd.as<A>()[row];
    A mean_g = 0;
    A mean_gh = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      const A h = (A(s[i]) - mean) * rstd;
      const A g = A(dy[i]) * A(weight[i]);
      mean_g += g;
      mean_gh += g * h;
      dweight[i] += A(dy[i]) * h;
      dbias[i] += A(dy[i]);
    }
    mean_g /= A(width);
    mean_gh /= A(width);
    for (std::int64_t i = 0; i < width; ++i) {
      const A h = (A(s[i]) - mean) * rstd;
      const A g = A(dy[i]) * A(weight[i]);
      const T ds = T(rstd * (g - mean_g - h * mean_gh));
      if (args.p > 0.0) {
        const std::int64_t at = row * width + i;
        args.dresidual.as<T>()[at] = ds;
        dx[i] = dropped(ds, at, args.p, args.seed, args.stream);
      } else {
        dx[i] = ds;
      }
    }
  }
  for (std::int64_t i = 0; i < width; ++i) {
    args.dweight.as<T>()[i] = T(dweight[i]);
    args.dbias.as<T>()[i] = T(dbias[i]);
  }
}

}  // namespace

EA_RUN_REF(LayerNormForward, forward_of, x)
EA_RUN_REF(LayerNormBackward, backward_of, x)

}  // namespace ea::ref
