// Reference AdamW and RAdam steps over many tensors.
#include <algorithm>
#include <cmath>

#include "kernels/optimizer_numbers.h"
#include "kernels/ref/kernels.h"

namespace ea::ref {

namespace {

// Element i of the gradient, looked up among the rows where there are some.
template <typename T>
Accumulator<T> gradient_at(const AdamWTensor& t, std::int64_t i) {
  using A = Accumulator<T>;
  const T* grad = t.grad.as<T>();
  if (!t.rows.defined()) return A(grad[i]);
  const std::int64_t width = t.param.dim(1);
  const auto* first = t.rows.as<std::int64_t>();
  const auto* last = first + t.rows.numel();
  const auto* found = std::lower_bound(first, last, i / width);
  if (found == last || *found != i / width) return A(0);
  return A(grad[(found - first) * width + i % width]);
}

// What all gradients are multiplied by.
template <typename Args>
double gradient_factor(const Args& args) {
  if (!args.scale.defined()) return args.grad_scale;
  return args.grad_scale * *args.scale.template as<const double>();
}

// What the step does to one tensor, from its settings or from the numbers
// beside the tensors.
struct Numbers {
  double shrink, decay, rate, root_correction2;
  bool rectified;

  template <typename Args>
  Numbers(const Args& args, const AdamWTensor& t) {
    if (args.numbers.defined()) {
      const auto* all = args.numbers.template as<const float>();
      const float* const own = all + 3 * t.number;
      const float* const last = all + 3 * (args.numbers.dim(0) - 1);
      shrink = own[0];
      decay = own[1];
      rate = own[2];
      root_correction2 = last[0];
      rectified = last[1] != 0.0f;
    } else {
      const StepNumbers step = numbers_of(args);
      const TensorNumbers own = step.of(t.lr, t.weight_decay);
      shrink = own.shrink;
      decay = own.decay;
      rate = own.rate;
      root_correction2 = step.root_correction2;
      rectified = step.rectified();
    }
  }
};

// The update runs on the master copy of a bfloat16 parameter (A is float) and
// on the parameter itself otherwise (A is T).
template <typename T>
void adamw_of(const AdamW::Args& args, const AdamWTensor& t, double factor) {
  using A = Accumulator<T>;
  const Numbers n(args, t);
  const A one_minus_beta1 = A(1 - args.beta1);
  const A one_minus_beta2 = A(1 - args.beta2);
  A* m = t.exp_avg.as<A>();
  A* v = t.exp_avg_sq.as<A>();
  T* param = t.param.as<T>();
  A* master = t.master.as<A>();
  for (std::int64_t i = 0; i < t.param.numel(); ++i) {
    const A g = A(factor) * gradient_at<T>(t, i);
    m[i] += one_minus_beta1 * (g - m[i]);
    v[i] = A(args.beta2) * v[i] + one_minus_beta2 * g * g;
    const A denominator = std::sqrt(v[i]) / A(n.root_correction2) + A(args.eps);
    const A x = t.master.defined() ? master[i] : A(param[i]);
    const A updated = x * A(n.shrink) - A(n.rate) * m[i] / denominator;
    if (t.master.defined()) master[i] = updated;
    param[i] = T(updated);
  }
}

template <typename T>
void radam_of(const RAdam::Args& args, const AdamWTensor& t, double factor) {
  using A = Accumulator<T>;
  const Numbers n(args, t);
  const A one_minus_beta1 = A(1 - args.beta1);
  const A one_minus_beta2 = A(1 - args.beta2);
  A* m = t.exp_avg.as<A>();
  A* v = t.exp_avg_sq.as<A>();
  T* param = t.param.as<T>();
  A* master = t.master.as<A>();
  for (std::int64_t i = 0; i < t.param.numel(); ++i) {
    const A x = t.master.defined() ? master[i] : A(param[i]);
    const A g = A(factor) * gradient_at<T>(t, i) + A(n.decay) * x;
    m[i] += one_minus_beta1 * (g - m[i]);
    v[i] = A(args.beta2) * v[i] + one_minus_beta2 * g * g;
    const A move = n.rectified
                       ? A(n.rate) * m[i] / (std::sqrt(v[i]) + A(args.eps))
                       : A(n.rate) * m[i];
    const A updated = x * A(n.shrink) - move;
    if (t.master.defined()) master[i] = updated;
    param[i] = T(updated);
  }
}

}  // namespace

void adamw(const AdamW::Args& args) {
  const double factor = gradient_factor(args);
  if (!std::isfinite(factor)) return;
  for (const AdamWTensor& t : *args.tensors) {
    visit_floating(t.param.dtype, AdamW::name, [&](auto tag) {
      adamw_of<typename decltype(tag)::type>(args, t, factor);
    });
  }
}

void radam(const RAdam::Args& args) {
  const double factor = gradient_factor(args);
  if (!std::isfinite(factor)) return;
  for (const AdamWTensor& t : *args.tensors) {
    visit_floating(t.param.dtype, RAdam::name, [&](auto tag) {
      radam_of<typename decltype(tag)::type>(args, t, factor);
    });
  }
}

}  // namespace ea::ref
