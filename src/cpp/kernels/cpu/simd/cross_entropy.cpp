// SIMD fused log-softmax loss, forward and backward (kernels/cross_entropy.h).
#include <cmath>

#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/cpu/simd/math-inl.h"
#include "kernels/cpu/simd/run-inl.h"
#include "kernels/cross_entropy.h"

namespace ea::simd::EA_TARGET {
namespace {

std::int64_t count_labels(const TensorView& labels, std::int64_t ignored) {
  const std::int64_t* label = labels.as<std::int64_t>();
  const std::int64_t n = labels.shape[0];
  std::int64_t count = 0;
  for (std::int64_t r = 0; r < n; ++r) count += label[r] != ignored;
  return count;
}

// Writes m, the largest logit, and l = log sum_c exp(x[c] - m) to `sums`, and
// returns l.
template <typename T>
double sums_of(const T* x, std::int64_t n, float* sums) {
  const float top =
      max_over(n, [&](std::int64_t c, auto part) { return load(x + c, part); });
  const float total = sum_over(n, [&](std::int64_t c, auto part) {
    return exp(load(x + c, part) - set(top));
  });
  const double log_total = std::log(static_cast<double>(total));
  sums[0] = top;
  sums[1] = static_cast<float>(log_total);
  return log_total;
}

template <typename T>
void run_forward(const CrossEntropyForward::Args& args) {
  const std::int64_t rows = args.logits.shape[0];
  const std::int64_t classes = args.logits.shape[1];
  const std::int64_t* labels = args.labels.as<std::int64_t>();
  float* sums = args.sums.as<float>();
  const double smoothing = args.label_smoothing;
  const Scratch scratch(rows * 8);
  double* losses = scratch.as<double>();
  parallel_each(rows, items_per_job(classes), [&](std::int64_t r) {
    const T* x = args.logits.as<T>() + r * classes;
    const double log_total = sums_of(x, classes, sums + 2 * r);
    if (labels[r] == args.ignore_index) return;
    const float top = sums[2 * r];
    const auto below = static_cast<double>(load_one(x + labels[r]) - top);
    losses[r] = (1.0 - smoothing) * (log_total - below);
    if (smoothing == 0.0) return;
    const float sum = sum_over(classes, [&](std::int64_t c, auto part) {
      return load(x + c, part) - set(top);
    });
    losses[r] += smoothing * (log_total - static_cast<double>(sum) /
                                              static_cast<double>(classes));
  });
  double total = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    if (labels[r] != args.ignore_index) total += losses[r];
  }
  const std::int64_t count = count_labels(args.labels, args.ignore_index);
  *args.loss.as<float>() =
      static_cast<float>(total / static_cast<double>(count));
}

template <typename T>
void run_backward(const CrossEntropyBackward::Args& args, float dloss) {
  const std::int64_t rows = args.logits.shape[0];
  const std::int64_t classes = args.logits.shape[1];
  const std::int64_t* labels = args.labels.as<std::int64_t>();
  const float* sums = args.sums.as<float>();
  const std::int64_t count = count_labels(args.labels, args.ignore_index);
  const float factor = dloss / static_cast<float>(count);
  const float hit = static_cast<float>(1.0 - args.label_smoothing);
  const float each =
      static_cast<float>(args.label_smoothing / static_cast<double>(classes));
  parallel_each(rows, items_per_job(classes), [&](std::int64_t r) {
    const T* x = args.logits.as<T>() + r * classes;
    T* dx = args.dlogits.as<T>() + r * classes;
    if (labels[r] == args.ignore_index) {
      __builtin_memset(static_cast<void*>(dx), 0,
                       static_cast<std::size_t>(classes) * sizeof(T));
      return;
    }
    const float top = sums[2 * r], log_total = sums[2 * r + 1];
    for_vectors(classes, [&](std::int64_t c, auto part) {
      const Vf p = exp(load(x + c, part) - set(top) - set(log_total));
      store(dx + c, set(factor) * (p - set(each)), part);
    });
    const Vf p = exp(set(load_one(x + labels[r]) - top - log_total));
    store_one(dx + labels[r], factor * (p[0] - each - hit));
  });
}

}  // namespace

EA_RUN(CrossEntropyForward, run_forward, logits)

template <>
void run<CrossEntropyBackward>(const CrossEntropyBackward::Args& args) {
  const float dloss = args.dloss.dtype == DType::bf16
                          ? load_one(args.dloss.as<bfloat16>())
                          : *args.dloss.as<float>();
  if (args.logits.dtype == DType::bf16) {
    return run_backward<bfloat16>(args, dloss);
  }
  run_backward<float>(args, dloss);
}

}  // namespace ea::simd::EA_TARGET
