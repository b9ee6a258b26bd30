// Reference masked softmax over the keys of attention maps.
#include <cmath>
#include <limits>

#include "kernels/ref/map_cells.h"
#include "kernels/ref/run.h"
#include "kernels/softmax.h"

namespace ea::ref {

namespace {

// Softmax of one row of n keys; exists(key) tells whether a key exists.
template <typename T, typename Exists>
void softmax_row(const T* x, const Exists& exists, std::int64_t n,
                 Accumulator<T> scale, T* y) {
  using A = Accumulator<T>;
  const auto masked = [&](std::int64_t j) { return !exists(j); };
  A largest = -std::numeric_limits<A>::infinity();
  for (std::int64_t j = 0; j < n; ++j) {
    if (!masked(j) && scale * A(x[j]) > largest) largest = scale * A(x[j]);
  }
  // A NaN or +inf makes one term, hence the sum and the whole row, NaN.
  A total = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    if (!masked(j)) total += std::exp(scale * A(x[j]) - largest);
  }
  for (std::int64_t j = 0; j < n; ++j) {
    y[j] = masked(j) ? T(A(0)) : T(std::exp(scale * A(x[j]) - largest) / total);
  }
}

template <typename T>
void forward_of(const SoftmaxForward::Args& args) {
  using A = Accumulator<T>;
  const MapLayout& layout = args.layout;
  for (std::int64_t b = 0; b < layout.sequences; ++b) {
    const std::int64_t n_k = layout.n_k(b);
    const std::int64_t rows = layout.heads * layout.n_q(b);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t at = layout.begin(b) + row * n_k;
      const std::int64_t i = row % layout.n_q(b);
      softmax_row<T>(
          args.x.as<T>() + at,
          [&](std::int64_t j) { return exists(layout, b, i, j); }, n_k,
          A(args.scale), args.y.as<T>() + at);
    }
  }
}

// y_j = exp(t_j) / sum, t = scale x: dy_j/dx_i = scale y_j ([i = j] - y_i), so
// dx_i = scale y_i (dy_i - sum_j dy_j y_j).
template <typename T>
void backward_of(const SoftmaxBackward::Args& args) {
  using A = Accumulator<T>;
  const MapLayout& layout = args.layout;
  for (std::int64_t b = 0; b < layout.sequences; ++b) {
    const std::int64_t n_k = layout.n_k(b);
    const std::int64_t rows = layout.heads * layout.n_q(b);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t at = layout.begin(b) + row * n_k;
      const T* dy = args.dy.as<T>() + at;
      const T* y = args.y.as<T>() + at;
      T* dx = args.dx.as<T>() + at;
      const auto there = [&](std::int64_t j) {
        return exists(layout, b, row % layout.n_q(b), j);
      };
      A dot = 0;
      for (std::int64_t j = 0; j < n_k; ++j) {
        if (there(j)) dot += A(dy[j]) * A(y[j]);
      }
      for (std::int64_t j = 0; j < n_k; ++j) {
        dx[j] =
            there(j) ? T(A(args.scale) * A(y[j]) * (A(dy[j]) - dot)) : T(A(0));
      }
    }
  }
}

}  // namespace

EA_RUN_REF(SoftmaxForward, forward_of, x)
EA_RUN_REF(SoftmaxBackward, backward_of, y)

}  // namespace ea::ref
