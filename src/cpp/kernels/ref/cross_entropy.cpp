// Reference cross entropy with label smoothing and an ignored label.
#include <cmath>
#include <limits>

#include "kernels/cross_entropy.h"
#include "kernels/ref/run.h"

namespace ea::ref {

namespace {

std::int64_t count_rows(const TensorView& labels, std::int64_t ignore_index) {
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    n += labels.as<std::int64_t>()[i] != ignore_index ? 1 : 0;
  }
  return n;
}

// Computes m, the largest logit, and log sum_c exp(x[c] - m).
template <typename T>
void sums_of(const T* x, std::int64_t classes, Accumulator<T>* sums) {
  using A = Accumulator<T>;
  A largest = -std::numeric_limits<A>::infinity();
  for (std::int64_t c = 0; c < classes; ++c) {
    if (A(x[c]) > largest) largest = A(x[c]);
  }
  A total = 0;
  for (std::int64_t c = 0; c < classes; ++c) {
    total += std::exp(A(x[c]) - largest);
  }
  sums[0] = largest;
  sums[1] = std::log(total);
}

template <typename T>
void forward_of(const CrossEntropyForward::Args& args) {
  using A = Accumulator<T>;
  const std::int64_t rows = args.logits.dim(0);
  const std::int64_t classes = args.logits.dim(1);
  const std::int64_t* labels = args.labels.as<std::int64_t>();
  const A smoothing = A(args.label_smoothing);
  A total = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* x = args.logits.as<T>() + row * classes;
    A* sums = args.sums.as<A>() + 2 * row;
    sums_of(x, classes, sums);
    if (labels[row] == args.ignore_index) continue;
    total += (1 - smoothing) * (sums[1] - (A(x[labels[row]]) - sums[0]));
    if (smoothing == A(0)) continue;  // 0 times the mean may be 0 times inf
    A mean = 0;
    for (std::int64_t c = 0; c < classes; ++c) mean += A(x[c]) - sums[0];
    total += smoothing * (sums[1] - mean / A(classes));
  }
  const std::int64_t n = count_rows(args.labels, args.ignore_index);
  *args.loss.as<A>() = total / A(n);  // 0/0 = NaN if every row is ignored
}

// d(m + l)/dx_c = exp(x_c - m - l); the smoothed target subtracts (1 - e) [c =
// label] and e / classes.
template <typename T>
void backward_of(const CrossEntropyBackward::Args& args) {
  using A = Accumulator<T>;
  const std::int64_t rows = args.logits.dim(0);
  const std::int64_t classes = args.logits.dim(1);
  const std::int64_t* labels = args.labels.as<std::int64_t>();
  const A smoothing = A(args.label_smoothing);
  const A dloss = visit_floating(
      args.dloss.dtype, CrossEntropyBackward::name, [&](auto tag) {
        using L = typename decltype(tag)::type;
        return static_cast<A>(Accumulator<L>(*args.dloss.as<L>()));
      });
  const A scale = dloss / A(count_rows(args.labels, args.ignore_index));
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* x = args.logits.as<T>() + row * classes;
    T* dx = args.dlogits.as<T>() + row * classes;
    const bool ignored = labels[row] == args.ignore_index;
    const A* sums = args.sums.as<A>() + 2 * row;
    for (std::int64_t c = 0; c < classes; ++c) {
      const A target =
          (c == labels[row] ? 1 - smoothing : A(0)) + smoothing / A(classes);
      const A probability = std::exp(A(x[c]) - sums[0] - sums[1]);
      dx[c] = ignored ? T(A(0)) : T(scale * (probability - target));
    }
  }
}

}  // namespace

EA_RUN_REF(CrossEntropyForward, forward_of, logits)
EA_RUN_REF(CrossEntropyBackward, backward_of, logits)

}  // namespace ea::ref
