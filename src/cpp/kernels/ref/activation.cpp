// Reference for activations: functions of one element and their derivatives.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/activation.h"
#include "kernels/reduce.h"
#include "kernels/ref/run.h"

namespace ea::ref {

template <>
void run<Sum>(const Sum::Args& args);  // reduce.cpp

namespace {

template <typename A>
constexpr A kSqrtHalf = std::numbers::sqrt2_v<A> / 2;

template <typename A>
constexpr A kSqrt2OverPi =
    std::numbers::sqrt2_v<A> * std::numbers::inv_sqrtpi_v<A>;

template <typename A>
constexpr A kCubic = A(0.044715);

template <typename A>
A sigmoid(A x) {
  return 1 / (1 + std::exp(-x));
}

// Phi(x) = erfc(-x / sqrt 2) / 2: unlike 1 + erf it does not cancel for x < 0.
template <typename A>
A normal_cdf(A x) {
  return std::erfc(-x * kSqrtHalf<A>) / 2;
}

// The comparisons keep a NaN instead of turning it into zero.
template <typename A>
A value(Activation kind, A slope, A x) {
  switch (kind) {
    case Activation::gelu:
      return x * normal_cdf(x);
    case Activation::gelu_tanh: {
      const A inner = kSqrt2OverPi<A> * (x + kCubic<A> * x * x * x);
      // 0.5 (1 + tanh u) = sigmoid(2 u), without the cancellation.
      return x * sigmoid(2 * inner);
    }
    case Activation::relu:
      return x < 0 ? A(0) : x;
    case Activation::leaky_relu:
      return x > 0 ? x : slope * x;
    case Activation::tanh:
      return std::tanh(x);
    case Activation::sigmoid:
      return sigmoid(x);
    case Activation::exp:
      return std::exp(x);
    case Activation::log:
      return std::log(x);
    case Activation::elu:
      return x > 0 ? x : std::expm1(x);
    default:
      return std::sqrt(x);
  }
}

template <typename A>
A derivative(Activation kind, A slope, A x) {
  switch (kind) {
    case Activation::gelu: {
      // (x Phi)' = Phi + x phi, phi(x) = exp(-x^2 / 2) / sqrt(2 pi).
      const A phi =
          std::exp(-x * x / 2) * kSqrtHalf<A> * std::numbers::inv_sqrtpi_v<A>;
      return normal_cdf(x) + x * phi;
    }
    case Activation::gelu_tanh: {
      // (x g(2u))' = g + 2 x g (1 - g) u', g the sigmoid, u' = c (1 + 3 k x^2);
      // 1 - g(2u) = g(-2u). Beyond 40, g or 1 - g is 0 and u' must not
      // overflow.
      const A y = std::clamp(x, A(-40), A(40));
      const A inner = kSqrt2OverPi<A> * (y + kCubic<A> * y * y * y);
      const A slope_of_inner = kSqrt2OverPi<A> * (1 + 3 * kCubic<A> * y * y);
      const A g = sigmoid(2 * inner);
      return g + 2 * y * g * sigmoid(-2 * inner) * slope_of_inner;
    }
    case Activation::relu:
      return x <= 0 ? A(0) : A(1);
    case Activation::leaky_relu:
      return x > 0 ? A(1) : slope;
    case Activation::tanh: {
      const A y = std::tanh(x);
      return (1 - y) * (1 + y);
    }
    case Activation::sigmoid:
      return sigmoid(x) * sigmoid(-x);
    case Activation::exp:
      return std::exp(x);
    case Activation::log:
      return 1 / x;
    case Activation::elu:
      return x > 0 ? A(1) : std::exp(x);
    default:
      return 1 / (2 * std::sqrt(x));
  }
}

template <typename T>
void forward_of(const ActivationForward::Args& args) {
  using A = Accumulator<T>;
  const T* x = args.x.as<T>();
  T* y = args.y.as<T>();
  for (std::int64_t i = 0; i < args.x.numel(); ++i) {
    y[i] = T(value(args.kind, A(args.slope), A(x[i])));
  }
}

template <typename T>
void backward_of(const ActivationBackward::Args& args) {
  using A = Accumulator<T>;
  const T* dy = args.dy.as<T>();
  const T* x = args.x.as<T>();
  T* dx = args.dx.as<T>();
  for (std::int64_t i = 0; i < args.x.numel(); ++i) {
    dx[i] = T(A(dy[i]) * derivative(args.kind, A(args.slope), A(x[i])));
  }
}

}  // namespace

EA_RUN_REF(ActivationForward, forward_of, x)

template <>
void run<ActivationBackward>(const ActivationBackward::Args& args) {
  visit_floating(args.x.dtype, ActivationBackward::name, [&](auto tag) {
    backward_of<typename decltype(tag)::type>(args);
  });
  if (!args.dbias.defined()) return;
  TensorView rows = args.dx, total = args.dbias;
  rows.shape = {1, args.dx.dim(0), args.dx.dim(1)};
  total.shape = {1, args.dx.dim(1)};
  run<Sum>({rows, total});
}

}  // namespace ea::ref
