// Activations and their derivatives, one 16-byte pack per thread.
#include <type_traits>

#include "kernels/activation.h"
#include "kernels/cuda/run.h"
#include "kernels/cuda/vec.cuh"
#include "kernels/reduce.h"

namespace ea::cuda {

namespace {

constexpr int kThreads = 256;
constexpr float kSqrtHalf = 0.70710678118654752f;
constexpr float kInvSqrt2Pi = 0.39894228040143268f;
constexpr float kSqrt2OverPi = 0.79788456080286536f;
constexpr float kCubic = 0.044715f;

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// Phi(x) = erfc(-x / sqrt 2) / 2: unlike 1 + erf it does not cancel for x < 0.
__device__ inline float normal_cdf(float x) {
  return 0.5f * erfcf(-x * kSqrtHalf);
}

// Comparisons are written so that a NaN stays NaN instead of becoming zero.
__device__ inline float value(Activation kind, float slope, float x) {
  switch (kind) {
    case Activation::gelu:
      return x * normal_cdf(x);
    case Activation::gelu_tanh: {
      // 0.5 (1 + tanh u) = sigmoid(2 u), without the cancellation.
      const float inner = kSqrt2OverPi * (x + kCubic * x * x * x);
      return x * sigmoid(2.0f * inner);
    }
    case Activation::relu:
      return x < 0.0f ? 0.0f : x;
    case Activation::leaky_relu:
      return x > 0.0f ? x : slope * x;
    case Activation::tanh:
      return tanhf(x);
    case Activation::sigmoid:
      return sigmoid(x);
    case Activation::exp:
      return expf(x);
    case Activation::log:
      return logf(x);
    case Activation::elu:
      return x > 0.0f ? x : expm1f(x);
    default:
      return sqrtf(x);
  }
}

__device__ inline float derivative(Activation kind, float slope, float x) {
  switch (kind) {
    case Activation::gelu:
      // (x Phi)' = Phi + x phi, phi(x) = exp(-x^2 / 2) / sqrt(2 pi).
      return normal_cdf(x) + x * (expf(-0.5f * x * x) * kInvSqrt2Pi);
    case Activation::gelu_tanh: {
      // (x g(2u))' = g + 2 x g (1 - g) u', g the sigmoid, u' = c (1 + 3 k x^2);
      // 1 - g(2u) = g(-2u). Beyond 40, g or 1 - g is 0 and u' must not
      // overflow.
      const float y = x > 40.0f ? 40.0f : x < -40.0f ? -40.0f : x;
      const float inner = kSqrt2OverPi * (y + kCubic * y * y * y);
      const float slope_of_inner =
          kSqrt2OverPi * (1.0f + 3.0f * kCubic * y * y);
      const float g = sigmoid(2.0f * inner);
      return g + 2.0f * y * g * sigmoid(-2.0f * inner) * slope_of_inner;
    }
    case Activation::relu:
      return x <= 0.0f ? 0.0f : 1.0f;
    case Activation::leaky_relu:
      return x > 0.0f ? 1.0f : slope;
    case Activation::tanh: {
      const float y = tanhf(x);
      return (1.0f - y) * (1.0f + y);
    }
    case Activation::sigmoid:
      return sigmoid(x) * sigmoid(-x);
    case Activation::exp:
      return expf(x);
    case Activation::log:
      return 1.0f / x;
    case Activation::elu:
      return x > 0.0f ? 1.0f : expf(x);
    default:
      return 1.0f / (2.0f * sqrtf(x));
  }
}

// Calls fn(kind) with the kind as a constant. The kind is selected once for all
// elements of a thread, which can then be computed in parallel.
template <typename Fn>
__device__ inline void with_kind(Activation kind, const Fn& fn) {
  const auto one_of = [&]<Activation... kKinds>() {
    (void)((kind == kKinds &&
            (fn(std::integral_constant<Activation, kKinds>()), true)) ||
           ...);
  };
  one_of.template operator()<
      Activation::gelu, Activation::gelu_tanh, Activation::relu,
      Activation::leaky_relu, Activation::tanh, Activation::sigmoid,
      Activation::exp, Activation::log, Activation::elu, Activation::sqrt>();
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(Activation kind, float slope, const T* x, T* y,
                   std::int64_t n, bool aligned) {
  const std::int64_t i =
      (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack<T>;
  if (i >= n) return;
  float v[kPack<T>];
  load_pack(x + i, n - i, aligned, v);
  with_kind(kind, [&](auto known) {
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) v[k] = value(known, slope, v[k]);
  });
  store_pack(y + i, n - i, aligned, v);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(Activation kind, float slope, const T* dy, const T* x,
                    T* dx, std::int64_t n, bool aligned) {
  const std::int64_t i =
      (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack<T>;
  if (i >= n) return;
  float v[kPack<T>], d[kPack<T>];
  load_pack(x + i, n - i, aligned, v);
  load_pack(dy + i, n - i, aligned, d);
  with_kind(kind, [&](auto known) {
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) d[k] *= derivative(known, slope, v[k]);
  });
  store_pack(dx + i, n - i, aligned, d);
}

template <typename T>
void forward_of(const ActivationForward::Args& args) {
  const std::int64_t n = args.x.numel();
  const T* x = args.x.as<T>();
  T* y = args.y.as<T>();
  launch(current_stream(), blocks_for(n, kThreads * kPack<T>), kThreads, 0,
         forward_kernel<T>, args.kind, static_cast<float>(args.slope), x, y, n,
         packs_aligned(x) && packs_aligned(y));
}

template <typename T>
void backward_of(const ActivationBackward::Args& args) {
  const std::int64_t n = args.x.numel();
  const T* dy = args.dy.as<T>();
  const T* x = args.x.as<T>();
  T* dx = args.dx.as<T>();
  launch(current_stream(), blocks_for(n, kThreads * kPack<T>), kThreads, 0,
         backward_kernel<T>, args.kind, static_cast<float>(args.slope), dy, x,
         dx, n, packs_aligned(dy) && packs_aligned(x) && packs_aligned(dx));
}

}  // namespace

EA_RUN_CUDA(ActivationForward, forward_of, x)

template <>
void run<ActivationBackward>(const ActivationBackward::Args& args) {
  visit_narrow(args.x.dtype, ActivationBackward::name, [&](auto tag) {
    backward_of<typename decltype(tag)::type>(args);
  });
  if (!args.dbias.defined()) return;
  TensorView rows = args.dx, total = args.dbias;
  rows.shape = {1, args.dx.dim(0), args.dx.dim(1)};
  total.shape = {1, args.dx.dim(1)};
  run<Sum>({rows, total});
}

}  // namespace ea::cuda
