// Whole and half exponents are products and square roots, others exp(p log x).
#include "ops/power.h"

#include <cmath>

#include "autograd/node.h"
#include "kernels/activation.h"
#include "kernels/elementwise.h"
#include "kernels/registry.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Up to here products are exact enough and fewer than 2 log2 of it.
constexpr double kMaxWhole = 64;

Tensor run(BinaryOp op, const Tensor& a, const Tensor& b) {
  const Tensor y = empty_like(a);
  kernels::run<Binary>({op, a, b, y});
  return y;
}

Tensor run(Activation kind, const Tensor& x) {
  const Tensor y = empty_like(x);
  kernels::run<ActivationForward>({kind, 0.0, x, y});
  return y;
}

Tensor scaled(const Tensor& x, double alpha) {
  const Tensor y = empty_like(x);
  kernels::run<Axpby>({alpha, x, 0.0, {}, y});
  return y;
}

Tensor ones_like(const Tensor& x) {
  return full(x.shape(), x.dtype(), 1.0, x.device());
}

bool by_products(double p) {
  return 2 * p == std::floor(2 * p) && std::abs(p) <= kMaxWhole;
}

// x^p in the type of x, p >= 0 a multiple of 1/2: by repeated squaring.
Tensor product_power(const Tensor& x, double p) {
  Tensor y;
  Tensor square = x;
  for (auto n = static_cast<int>(p); n > 0; n /= 2) {
    if (n % 2 == 1) {
      y = y.defined() ? run(BinaryOp::mul, y, square) : square;
    }
    if (n > 1) square = run(BinaryOp::mul, square, square);
  }
  if (p != std::floor(p)) {
    const Tensor root = run(Activation::sqrt, x);
    y = y.defined() ? run(BinaryOp::mul, y, root) : root;
  }
  return y.defined() ? y : ones_like(x);
}

// x^p in the type of x; what is in between has more digits.
Tensor power(const Tensor& x, double p) {
  if (p == 2) return run(BinaryOp::mul, x, x);
  if (by_products(p)) {
    const Tensor wide = x.dtype() == DType::bf16 ? cast(x, DType::f32) : x;
    const Tensor y = product_power(wide, std::abs(p));
    return cast(p < 0 ? run(BinaryOp::div, ones_like(y), y) : y, x.dtype());
  }
  // In float64, which only the CPU has kernels of: the same bits on any device.
  const Tensor wide = cast(to_device(x, kCpu), DType::f64);
  const Tensor log = run(Activation::log, wide);
  const Tensor y = cast(run(Activation::exp, scaled(log, p)), x.dtype());
  return to_device(y, x.device());
}

}  // namespace

Var pow(const Var& x, double exponent) {
  EA_CHECK_AS(DTypeError, is_floating(x.dtype()), "pow",
              "expected a floating type, got {}; use .to('float32')",
              x.dtype());
  const Tensor input = contiguous(x.data());
  return record(
      "pow", power(input, exponent), {x}, {input},
      [exponent](const Node& node, const Tensor& dy) {
        // d(x^p) = p x^(p-1) dx; of x^0, a constant, nothing.
        if (exponent == 0) {
          return Node::Gradients{zeros(dy.shape(), dy.dtype(), dy.device())};
        }
        const Tensor slope = power(node.saved(0), exponent - 1);
        return Node::Gradients{scaled(run(BinaryOp::mul, dy, slope), exponent)};
      });
}

Var pow(const Var& x, const Var& exponent) {
  return activation(mul(exponent, activation(x, Activation::log)),
                    Activation::exp);
}

}  // namespace ea
