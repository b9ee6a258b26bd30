// Reference AdamW, RAdam and SGD steps over many tensors.
#include <algorithm>
#include <cmath>

#include "kernels/optimizer.h"
#include "kernels/ref/run.h"

namespace ea::ref {

namespace {

// Returns element i of the gradient. If the gradient lists its rows, it is 0 in
// all others.
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

// Returns the factor of all gradients.
template <typename Args>
double gradient_factor(const Args& args) {
  if (!args.scale.defined()) return args.grad_scale;
  return args.grad_scale * *args.scale.template as<const double>();
}

// The update runs on the master copy of a bfloat16 parameter (A is float) and
// on the parameter itself otherwise (A is T).
template <typename T>
void adamw_of(const AdamW::Args& args, const AdamWTensor& t, double factor) {
  using A = Accumulator<T>;
  const double step = static_cast<double>(args.step);
  const double correction1 = 1 - std::pow(args.beta1, step);
  const double correction2 = 1 - std::pow(args.beta2, step);
  const A decay = A(1 - t.lr * t.weight_decay);
  const A step_size = A(t.lr / correction1);
  const A root_correction2 = A(std::sqrt(correction2));
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
    const A denominator = std::sqrt(v[i]) / root_correction2 + A(args.eps);
    const A x = t.master.defined() ? master[i] : A(param[i]);
    const A updated = x * decay - step_size * m[i] / denominator;
    if (t.master.defined()) master[i] = updated;
    param[i] = T(updated);
  }
}

template <typename T>
void radam_of(const RAdam::Args& args, const AdamWTensor& t, double factor) {
  using A = Accumulator<T>;
  const double step = static_cast<double>(args.step);
  const A rate = A(t.lr / (1 - std::pow(args.beta1, step)));
  const A rectified =
      A(t.lr / (1 - std::pow(args.beta1, step)) * args.rectification *
        std::sqrt(1 - std::pow(args.beta2, step)));
  const A shrink = A(args.decoupled ? 1 - t.lr * t.weight_decay : 1.0);
  const A decay = A(args.decoupled ? 0.0 : t.weight_decay);
  const A one_minus_beta1 = A(1 - args.beta1);
  const A one_minus_beta2 = A(1 - args.beta2);
  A* m = t.exp_avg.as<A>();
  A* v = t.exp_avg_sq.as<A>();
  T* param = t.param.as<T>();
  A* master = t.master.as<A>();
  for (std::int64_t i = 0; i < t.param.numel(); ++i) {
    const A x = t.master.defined() ? master[i] : A(param[i]);
    const A g = A(factor) * gradient_at<T>(t, i) + decay * x;
    m[i] += one_minus_beta1 * (g - m[i]);
    v[i] = A(args.beta2) * v[i] + one_minus_beta2 * g * g;
    const A move = args.rectification > 0
                       ? rectified * m[i] / (std::sqrt(v[i]) + A(args.eps))
                       : rate * m[i];
    const A updated = x * shrink - move;
    if (t.master.defined()) master[i] = updated;
    param[i] = T(updated);
  }
}

template <typename T>
void sgd_of(const SGD::Args& args, const AdamWTensor& t, double factor) {
  using A = Accumulator<T>;
  const A rate = A(t.lr), momentum = A(args.momentum);
  const A shrink = A(args.decoupled ? 1 - t.lr * t.weight_decay : 1.0);
  const A decay = A(args.decoupled ? 0.0 : t.weight_decay);
  A* m = t.exp_avg.as<A>();
  T* param = t.param.as<T>();
  A* master = t.master.as<A>();
  for (std::int64_t i = 0; i < t.param.numel(); ++i) {
    const A x = t.master.defined() ? master[i] : A(param[i]);
    A direction = A(factor) * gradient_at<T>(t, i) + decay * x;
    if (t.exp_avg.defined()) {
      m[i] = momentum * m[i] + direction;
      direction = args.nesterov ? direction + momentum * m[i] : m[i];
    }
    const A updated = x * shrink - rate * direction;
    if (t.master.defined()) master[i] = updated;
    param[i] = T(updated);
  }
}

// Calls one(tag of the dtype, tensor, factor) for each tensor; does nothing if
// the factor is not finite.
template <typename K, typename One>
void update_all(const typename K::Args& args, const One& one) {
  const double factor = gradient_factor(args);
  if (!std::isfinite(factor)) return;
  for (const AdamWTensor& t : *args.tensors) {
    visit_floating(t.param.dtype, K::name,
                   [&](auto tag) { one(tag, t, factor); });
  }
}

}  // namespace

template <>
void run<AdamW>(const AdamW::Args& args) {
  update_all<AdamW>(args, [&](auto tag, const AdamWTensor& t, double factor) {
    adamw_of<typename decltype(tag)::type>(args, t, factor);
  });
}

template <>
void run<RAdam>(const RAdam::Args& args) {
  update_all<RAdam>(args, [&](auto tag, const AdamWTensor& t, double factor) {
    radam_of<typename decltype(tag)::type>(args, t, factor);
  });
}

template <>
void run<SGD>(const SGD::Args& args) {
  update_all<SGD>(args, [&](auto tag, const AdamWTensor& t, double factor) {
    sgd_of<typename decltype(tag)::type>(args, t, factor);
  });
}

}  // namespace ea::ref
