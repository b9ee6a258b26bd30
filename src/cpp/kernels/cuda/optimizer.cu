// AdamW, RAdam and SGD over many tensors at once: one launch updates as many
// tensors as descriptions fit in the kernel's parameters.
#include <cmath>
#include <vector>

#include "kernels/cuda/run.h"
#include "kernels/cuda/vec.cuh"
#include "kernels/optimizer.h"

namespace ea::cuda {

namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kChunk = 8192;  // elements per block

template <typename T>
struct One {
  T* param;
  const T* grad;
  float *exp_avg, *exp_avg_sq, *master;
  const std::int64_t* rows;  // rows `grad` holds; null for all
  std::int64_t numel, n_rows, width;
  float shrink, decay, rate;  // see the rules
  bool aligned;
};

// Kernel parameter of at most 4 KB.
template <typename T>
struct Batch {
  static constexpr int kMost = 32;
  One<T> all[kMost];
  unsigned first_block[kMost + 1];
  int count = 0;
};

struct GradientScale {
  double factor;
  const double* scale;  // null for 1
};

// Adam's moments m and v of the gradients g.
struct Moments {
  float one_minus_beta1, beta2, one_minus_beta2, eps;

  template <typename Args>
  explicit Moments(const Args& args)
      : one_minus_beta1(static_cast<float>(1.0 - args.beta1)),
        beta2(static_cast<float>(args.beta2)),
        one_minus_beta2(static_cast<float>(1.0 - args.beta2)),
        eps(static_cast<float>(args.eps)) {}

  __device__ void add(float g, float& m, float& v) const {
    m += one_minus_beta1 * (g - m);
    v = beta2 * v + one_minus_beta2 * g * g;
  }
};

// Computes the next value of a parameter x with gradient g and updates its
// kMoments moments in place; kernels/optimizer.h has the formulas.
struct AdamWRule {
  using Args = AdamW::Args;
  static constexpr int kMoments = 2;
  Moments moments;
  float root_correction2;

  explicit AdamWRule(const Args& args)
      : moments(args),
        root_correction2(static_cast<float>(std::sqrt(
            1.0 - std::pow(args.beta2, static_cast<double>(args.step))))) {}
  static double shrink(const Args&, const AdamWTensor& t) {
    return 1.0 - t.lr * t.weight_decay;
  }
  static double decay(const Args&, const AdamWTensor&) { return 0.0; }
  static double rate(const Args& args, const AdamWTensor& t) {
    return t.lr / (1.0 - std::pow(args.beta1, static_cast<double>(args.step)));
  }

  template <typename T>
  __device__ float next(const One<T>& one, float x, float g, float& m,
                        float& v) const {
    moments.add(g, m, v);
    return x * one.shrink -
           one.rate * m / (sqrtf(v) / root_correction2 + moments.eps);
  }
};

struct RAdamRule {
  using Args = RAdam::Args;
  static constexpr int kMoments = 2;
  Moments moments;
  bool rectified;

  explicit RAdamRule(const Args& args)
      : moments(args), rectified(args.rectification > 0.0) {}
  static double shrink(const Args& args, const AdamWTensor& t) {
    return args.decoupled ? 1.0 - t.lr * t.weight_decay : 1.0;
  }
  static double decay(const Args& args, const AdamWTensor& t) {
    return args.decoupled ? 0.0 : t.weight_decay;
  }
  static double rate(const Args& args, const AdamWTensor& t) {
    const auto step = static_cast<double>(args.step);
    const double plain = t.lr / (1.0 - std::pow(args.beta1, step));
    if (args.rectification <= 0.0) return plain;
    return plain * args.rectification *
           std::sqrt(1.0 - std::pow(args.beta2, step));
  }

  template <typename T>
  __device__ float next(const One<T>& one, float x, float g, float& m,
                        float& v) const {
    moments.add(g + one.decay * x, m, v);
    const float direction = rectified ? m / (sqrtf(v) + moments.eps) : m;
    return x * one.shrink - one.rate * direction;
  }
};

template <bool Momentum>
struct SGDRule {
  using Args = SGD::Args;
  static constexpr int kMoments = Momentum ? 1 : 0;
  float momentum;
  bool nesterov;

  explicit SGDRule(const Args& args)
      : momentum(static_cast<float>(args.momentum)), nesterov(args.nesterov) {}
  static double shrink(const Args& args, const AdamWTensor& t) {
    return args.decoupled ? 1.0 - t.lr * t.weight_decay : 1.0;
  }
  static double decay(const Args& args, const AdamWTensor& t) {
    return args.decoupled ? 0.0 : t.weight_decay;
  }
  static double rate(const Args&, const AdamWTensor& t) { return t.lr; }

  template <typename T>
  __device__ float next(const One<T>& one, float x, float g, float& m,
                        float&) const {
    g += one.decay * x;
    if constexpr (Momentum) {
      m = momentum * m + g;
      g = nesterov ? g + momentum * m : m;
    }
    return x * one.shrink - one.rate * g;
  }
};

// Elements that a thread updates at a time: one load of float32. The accesses
// of a warp are contiguous.
constexpr int kFew = 4;

// Loads elements p[0 .. count) as floats and sets the rest to 0; store_some()
// rounds and stores them.
template <typename E>
__device__ inline void load_some(const E* p, std::int64_t count, bool aligned,
                                 float (&v)[kFew]) {
  if (count >= kFew) return load_few(p, aligned, v);
#pragma unroll
  for (int k = 0; k < kFew; ++k) {
    v[k] = k < count ? static_cast<float>(p[k]) : 0.0f;
  }
}
template <typename E>
__device__ inline void store_some(E* p, std::int64_t count, bool aligned,
                                  const float (&v)[kFew]) {
  if (count >= kFew) return store_few(p, aligned, v);
#pragma unroll
  for (int k = 0; k < kFew; ++k) {
    if (k < count) p[k] = E(v[k]);
  }
}

// Loads the gradient of elements i .. i + count; rows without one give zeros.
template <typename T>
__device__ inline void load_gradient(const One<T>& one, std::int64_t i,
                                     std::int64_t count, float (&g)[kFew]) {
  if (one.rows == nullptr) {
    return load_some(one.grad + i, count, one.aligned, g);
  }
  std::int64_t row = -1, place = -1;
#pragma unroll
  for (int k = 0; k < kFew; ++k) {
    g[k] = 0.0f;
    if (k >= count) continue;
    if ((i + k) / one.width != row) {
      row = (i + k) / one.width;
      std::int64_t low = 0, high = one.n_rows;
      while (low < high) {
        const std::int64_t middle = (low + high) / 2;
        if (one.rows[middle] < row) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      place = low < one.n_rows && one.rows[low] == row ? low : -1;
    }
    if (place >= 0) {
      g[k] = static_cast<float>(
          one.grad[place * one.width + i + k - row * one.width]);
    }
  }
}

template <typename Rule, typename T>
__device__ inline void update(const Rule& rule, const One<T>& one,
                              float grad_scale, std::int64_t i,
                              std::int64_t count) {
  constexpr bool kHasM = Rule::kMoments > 0, kHasV = Rule::kMoments > 1;
  float g[kFew], m[kFew], v[kFew], x[kFew];
  load_gradient(one, i, count, g);
  if constexpr (kHasM) load_some(one.exp_avg + i, count, one.aligned, m);
  if constexpr (kHasV) load_some(one.exp_avg_sq + i, count, one.aligned, v);
  if (one.master != nullptr) {
    load_some(one.master + i, count, one.aligned, x);
  } else {
    load_some(one.param + i, count, one.aligned, x);
  }
#pragma unroll
  for (int k = 0; k < kFew; ++k) {
    x[k] = rule.next(one, x[k], g[k] * grad_scale, m[k], v[k]);
  }
  if constexpr (kHasM) store_some(one.exp_avg + i, count, one.aligned, m);
  if constexpr (kHasV) store_some(one.exp_avg_sq + i, count, one.aligned, v);
  if (one.master != nullptr) {
    store_some(one.master + i, count, one.aligned, x);
  }
  store_some(one.param + i, count, one.aligned, x);
}

template <typename Rule, typename T>
__global__ void __launch_bounds__(kThreads)
    update_kernel(Rule rule, Batch<T> batch, GradientScale of) {
  const double scale = of.scale != nullptr ? *of.scale : 1.0;
  if (0.0 * scale != 0.0) return;  // NaN or infinite
  const float grad_scale = static_cast<float>(of.factor * scale);
  int which = 0;
  while (blockIdx.x >= batch.first_block[which + 1]) ++which;
  const One<T>& one = batch.all[which];
  const std::int64_t begin =
      std::int64_t{blockIdx.x - batch.first_block[which]} * kChunk;
  const std::int64_t end =
      begin + kChunk < one.numel ? begin + kChunk : one.numel;
  for (std::int64_t i = begin + threadIdx.x * kFew; i < end;
       i += kThreads * kFew) {
    update(rule, one, grad_scale, i, end - i);
  }
}

template <typename Rule, typename T>
One<T> described(const typename Rule::Args& args, const AdamWTensor& t) {
  One<T> one{t.param.as<T>(),
             t.grad.as<const T>(),
             t.exp_avg.as<float>(),
             t.exp_avg_sq.as<float>(),
             t.master.as<float>(),
             t.rows.as<const std::int64_t>(),
             t.param.numel(),
             t.rows.defined() ? t.rows.numel() : 0,
             t.rows.defined() ? t.param.dim(1) : 0,
             static_cast<float>(Rule::shrink(args, t)),
             static_cast<float>(Rule::decay(args, t)),
             static_cast<float>(Rule::rate(args, t)),
             false};
  one.aligned = is_few<kFew>(one.param) && is_few<kFew>(one.grad) &&
                is_few<kFew>(one.exp_avg) && is_few<kFew>(one.exp_avg_sq) &&
                is_few<kFew>(one.master);
  return one;
}

// Updates the tensors of dtype T in order.
template <typename Rule, typename T>
void update_tensors(const typename Rule::Args& args) {
  const Rule rule(args);
  const GradientScale scale{args.grad_scale,
                            args.scale.template as<const double>()};
  Batch<T> batch;
  batch.first_block[0] = 0;
  const auto flush = [&] {
    launch(current_stream(), batch.first_block[batch.count], kThreads, 0,
           update_kernel<Rule, T>, rule, batch, scale);
    batch.count = 0;
  };
  for (const AdamWTensor& t : *args.tensors) {
    if (t.param.dtype != dtype_of<T>() || t.param.numel() == 0) continue;
    batch.all[batch.count] = described<Rule, T>(args, t);
    batch.first_block[batch.count + 1] =
        batch.first_block[batch.count] + blocks_for(t.param.numel(), kChunk);
    if (++batch.count == Batch<T>::kMost) flush();
  }
  flush();
}

template <typename Rule>
void update_all(const typename Rule::Args& args) {
  update_tensors<Rule, float>(args);
  update_tensors<Rule, bfloat16>(args);
}

}  // namespace

template <>
void run<AdamW>(const AdamW::Args& args) {
  update_all<AdamWRule>(args);
}

template <>
void run<RAdam>(const RAdam::Args& args) {
  update_all<RAdamRule>(args);
}

template <>
void run<SGD>(const SGD::Args& args) {
  if (args.momentum == 0.0) {
    update_all<SGDRule<false>>(args);
  } else {
    update_all<SGDRule<true>>(args);
  }
}

}  // namespace ea::cuda
