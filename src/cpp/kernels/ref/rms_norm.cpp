// Reference root mean square normalisation, row by row.
#include "kernels/rms_norm.h"

#include <cmath>
#include <vector>

#include "kernels/ref/run.h"

namespace ea::ref {

namespace {

template <typename T>
void forward_of(const RmsNormForward::Args& args) {
  using A = Accumulator<T>;
  const std::int64_t rows = args.x.dim(0);
  const std::int64_t width = args.x.dim(1);
  const T* weight = args.weight.as<T>();
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* x = args.x.as<T>() + row * width;
    T* y = args.y.as<T>() + row * width;
    A squares = 0;
    for (std::int64_t i = 0; i < width; ++i) squares += A(x[i]) * A(x[i]);
    const A rrms = 1 / std::sqrt(squares / A(width) + A(args.eps));
    args.rrms.as<A>()[row] = rrms;
    for (std::int64_t i = 0; i < width; ++i) {
      y[i] = T(A(x[i]) * rrms * A(weight[i]));
    }
  }
}

// d rrms / dx_i = -rrms^3 x_i / n = -rrms^2 h_i / n, so the row's Jacobian is
//   dh_j/dx_i = rrms ([i = j] - h_i h_j / n), and
//   dx_i = sum_j g_j dh_j/dx_i = rrms (g_i - h_i mean(g h)).
template <typename T>
void backward_of(const RmsNormBackward::Args& args) {
  using A = Accumulator<T>;
  const std::int64_t rows = args.x.dim(0);
  const std::int64_t width = args.x.dim(1);
  const T* weight = args.weight.as<T>();
  std::vector<A> dweight(static_cast<std::size_t>(width));
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* dy = args.dy.as<T>() + row * width;
    const T* x = args.x.as<T>() + row * width;
    T* dx = args.dx.as<T>() + row * width;
    const A rrms = args.rrms.as<A>()[row];
    A mean_gh = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      const A h = A(x[i]) * rrms;
      mean_gh += A(dy[i]) * A(weight[i]) * h;
      dweight[static_cast<std::size_t>(i)] += A(dy[i]) * h;
    }
    mean_gh /= A(width);
    for (std::int64_t i = 0; i < width; ++i) {
      const A h = A(x[i]) * rrms;
      dx[i] = T(rrms * (A(dy[i]) * A(weight[i]) - h * mean_gh));
    }
  }
  for (std::int64_t i = 0; i < width; ++i) {
    args.dweight.as<T>()[i] = T(dweight[static_cast<std::size_t>(i)]);
  }
}

}  // namespace

EA_RUN_REF(RmsNormForward, forward_of, x)
EA_RUN_REF(RmsNormBackward, backward_of, x)

}  // namespace ea::ref
