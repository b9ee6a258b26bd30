// SIMD AdamW, RAdam and SGD in one pass over all tensors (kernels/optimizer.h).
#include <cmath>

#include "kernels/cpu/simd/pieces-inl.h"
#include "kernels/cpu/simd/run-inl.h"
#include "kernels/optimizer.h"

namespace ea::simd::EA_TARGET {
namespace {

EA_INLINE Vf number(double x) { return set(static_cast<float>(x)); }

// A rule holds the constants of one tensor. next() returns the next value of a
// parameter vector x with gradient g and updates its kMoments moments in place.
struct AdamWRule {
  static constexpr int kMoments = 2;
  Vf decay;    // 1 - lr wd
  Vf rate;     // lr / (1 - b1^t)
  Vf root;     // 1 / sqrt(1 - b2^t)
  Vf b1_rest;  // 1 - b1
  Vf b2, b2_rest, eps, grad_scale;

  AdamWRule(const AdamW::Args& args, const AdamWTensor& tensor) {
    const auto t = static_cast<double>(args.step);
    decay = number(1.0 - tensor.lr * tensor.weight_decay);
    rate = number(tensor.lr / (1.0 - std::pow(args.beta1, t)));
    root = number(1.0 / std::sqrt(1.0 - std::pow(args.beta2, t)));
    b1_rest = number(1.0 - args.beta1);
    b2 = number(args.beta2);
    b2_rest = number(1.0 - args.beta2);
    eps = number(args.eps);
    grad_scale = number(args.grad_scale);
  }

  EA_INLINE Vf next(Vf x, Vf g, Vf& m, Vf& v) const {
    m = fma(b1_rest, g - m, m);
    v = fma(b2_rest * g, g, b2 * v);
    const Vf denominator = fma(sqrt(v), root, eps);
    return fnma(rate, m / denominator, x * decay);
  }
};

struct RAdamRule {
  static constexpr int kMoments = 2;
  Vf shrink;  // 1 - lr wd where decoupled, else 1
  Vf decay;   // wd where it is added to the gradient, else 0
  Vf rate;    // factor of m, or of m / (sqrt(v) + eps) if rectified
  Vf b1_rest, b2, b2_rest, eps, grad_scale;
  bool rectified;

  RAdamRule(const RAdam::Args& args, const AdamWTensor& tensor) {
    const auto t = static_cast<double>(args.step);
    const double lr = tensor.lr / (1.0 - std::pow(args.beta1, t));
    rectified = args.rectification > 0.0;
    rate = number(rectified ? lr * args.rectification *
                                  std::sqrt(1.0 - std::pow(args.beta2, t))
                            : lr);
    shrink =
        number(args.decoupled ? 1.0 - tensor.lr * tensor.weight_decay : 1.0);
    decay = number(args.decoupled ? 0.0 : tensor.weight_decay);
    b1_rest = number(1.0 - args.beta1);
    b2 = number(args.beta2);
    b2_rest = number(1.0 - args.beta2);
    eps = number(args.eps);
    grad_scale = number(args.grad_scale);
  }

  EA_INLINE Vf next(Vf x, Vf g, Vf& m, Vf& v) const {
    g = fma(decay, x, g);
    m = fma(b1_rest, g - m, m);
    v = fma(b2_rest * g, g, b2 * v);
    const Vf direction = rectified ? m / (sqrt(v) + eps) : m;
    return fnma(rate, direction, x * shrink);
  }
};

template <bool Momentum>
struct SGDRule {
  static constexpr int kMoments = Momentum ? 1 : 0;
  Vf shrink, decay;  // as in RAdamRule
  Vf rate, momentum, grad_scale;
  bool nesterov;

  SGDRule(const SGD::Args& args, const AdamWTensor& tensor) {
    shrink =
        number(args.decoupled ? 1.0 - tensor.lr * tensor.weight_decay : 1.0);
    decay = number(args.decoupled ? 0.0 : tensor.weight_decay);
    rate = number(tensor.lr);
    momentum = number(args.momentum);
    grad_scale = number(args.grad_scale);
    nesterov = args.nesterov;
  }

  EA_INLINE Vf next(Vf x, Vf g, Vf& m, Vf&) const {
    g = fma(decay, x, g);
    if constexpr (Momentum) {
      m = fma(momentum, m, g);
      g = nesterov ? fma(momentum, m, g) : m;
    }
    return fnma(rate, g, x * shrink);
  }
};

// Updates `value`: the parameter itself, or its float32 master. Without
// HasGrad, the gradient is zero.
template <bool HasGrad, typename Rule, typename T>
void update(const Rule& rule, T* param, const T* grad, float* value, float* m,
            float* v, std::int64_t n) {
  for_vectors(n, [&](std::int64_t i, auto part) {
    Vf g = set(0.0f);
    if constexpr (HasGrad) g = load(grad + i, part) * rule.grad_scale;
    Vf new_m = set(0.0f), new_v = set(0.0f);
    if constexpr (Rule::kMoments > 0) new_m = load(m + i, part);
    if constexpr (Rule::kMoments > 1) new_v = load(v + i, part);
    const Vf x = rule.next(load(value + i, part), g, new_m, new_v);
    if constexpr (Rule::kMoments > 0) store(m + i, new_m, part);
    if constexpr (Rule::kMoments > 1) store(v + i, new_v, part);
    store(value + i, x, part);
    if constexpr (sizeof(T) != sizeof(float)) store(param + i, x, part);
  });
}

// Updates n elements from `at`. `grad` is their gradient, or null for zero.
template <typename Rule, typename T>
void update_span(const Rule& rule, const AdamWTensor& tensor, const T* grad,
                 std::int64_t at, std::int64_t n) {
  T* param = tensor.param.as<T>() + at;
  float* value;
  if constexpr (sizeof(T) == sizeof(float)) {
    value = param;
  } else {
    value = tensor.master.as<float>() + at;
  }
  float *m = nullptr, *v = nullptr;
  if constexpr (Rule::kMoments > 0) m = tensor.exp_avg.as<float>() + at;
  if constexpr (Rule::kMoments > 1) v = tensor.exp_avg_sq.as<float>() + at;
  if (grad != nullptr) {
    update<true>(rule, param, grad, value, m, v, n);
  } else {
    update<false>(rule, param, grad, value, m, v, n);
  }
}

// Returns the index of the first of `count` increasing numbers that is not
// below `row`.
std::int64_t first_from(const std::int64_t* rows, std::int64_t count,
                        std::int64_t row) {
  std::int64_t low = 0;
  while (low < count) {
    const std::int64_t middle = (low + count) / 2;
    if (rows[middle] < row) {
      low = middle + 1;
    } else {
      count = middle;
    }
  }
  return low;
}

template <typename T, typename Rule>
void run_piece(const Rule& rule, const AdamWTensor& tensor,
               const Piece& piece) {
  const T* grad = tensor.grad.as<T>();
  std::int64_t at = piece.begin;
  if (!tensor.rows.defined()) {
    return update_span(rule, tensor, grad + at, at, piece.end - at);
  }
  // Alternates between the span before the next listed row and that row.
  const std::int64_t width = tensor.param.shape[1];
  const std::int64_t count = tensor.rows.shape[0];
  const std::int64_t* rows = tensor.rows.as<std::int64_t>();
  const T* const none = nullptr;
  std::int64_t k = first_from(rows, count, at / width);
  while (at < piece.end) {
    const std::int64_t row = k < count ? rows[k] * width : piece.end;
    if (at < row) {
      const std::int64_t end = row < piece.end ? row : piece.end;
      update_span(rule, tensor, none, at, end - at);
      at = end;
    } else {
      const std::int64_t end =
          row + width < piece.end ? row + width : piece.end;
      update_span(rule, tensor, grad + k * width + (at - row), at, end - at);
      at = end;
      ++k;
    }
  }
}

template <typename Rule, typename Args>
void run_all(const Args& given) {
  Args args = given;
  if (given.scale.defined()) {
    const double scale = *given.scale.template as<const double>();
    if (!__builtin_isfinite(scale)) return;
    args.grad_scale *= scale;
  }
  const AdamWTensor* tensors = args.tensors->data();
  const auto count = static_cast<std::int64_t>(args.tensors->size());
  std::int64_t total = 0;
  for (std::int64_t t = 0; t < count; ++t) {
    total += piece_count(tensors[t].param.numel());
  }
  const Scratch scratch(total * static_cast<std::int64_t>(sizeof(Piece)));
  Piece* pieces = scratch.as<Piece>();
  Piece* out = pieces;
  for (std::int64_t t = 0; t < count; ++t) {
    out = cut(t, tensors[t].param.numel(), out);
  }
  parallel_for(total, [&](std::int64_t job) {
    const Piece& piece = pieces[job];
    const AdamWTensor& tensor = tensors[piece.tensor];
    const Rule rule(args, tensor);
    if (tensor.param.dtype == DType::bf16) {
      run_piece<bfloat16>(rule, tensor, piece);
    } else {
      run_piece<float>(rule, tensor, piece);
    }
  });
}

}  // namespace

template <>
void run<AdamW>(const AdamW::Args& args) {
  run_all<AdamWRule>(args);
}

template <>
void run<RAdam>(const RAdam::Args& args) {
  run_all<RAdamRule>(args);
}

template <>
void run<SGD>(const SGD::Args& args) {
  if (args.momentum == 0.0) {
    run_all<SGDRule<false>>(args);
  } else {
    run_all<SGDRule<true>>(args);
  }
}

}  // namespace ea::simd::EA_TARGET
