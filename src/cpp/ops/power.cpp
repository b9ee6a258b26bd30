// Powers: small whole and half exponents use products and square roots, other
// fixed ones exp(p log x); large whole ones, of negative numbers too, and
// tensor exponents use std::pow.
#include "ops/power.h"

#include <cmath>

#include "autograd/node.h"
#include "kernels/activation.h"
#include "kernels/elementwise.h"
#include "kernels/registry.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "runtime/check.h"
#include "runtime/threads.h"

namespace ea {

namespace {

// Largest exponent computed by products: they are exact enough, and fewer than
// 2 log2(kMaxWhole).
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

// Returns x^p in the type of x by repeated squaring; p >= 0 is a multiple of
// 1/2.
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
    // The square root of -0.0 is -0.0, its other powers are 0.0.
    const Tensor root = run(BinaryOp::add, run(Activation::sqrt, x),
                            zeros(x.shape(), x.dtype(), x.device()));
    y = y.defined() ? run(BinaryOp::mul, y, root) : root;
  }
  if (p == 1.0) return clone(x);  // never the memory of x
  return y.defined() ? y : ones_like(x);
}

// Returns f(a, b) elementwise for contiguous tensors of one shape and type,
// computed in float64 on the CPU.
template <typename F>
Tensor each(const Tensor& a, const Tensor& b, F f) {
  const Tensor x = cast(to_device(a, kCpu), DType::f64);
  const Tensor p = cast(to_device(b, kCpu), DType::f64);
  const Tensor y = empty_like(x);
  const auto *first = x.data<double>(), *second = p.data<double>();
  auto* out = y.data<double>();
  parallel_chunks(y.numel(), 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) out[i] = f(first[i], second[i]);
  });
  return to_device(cast(y, a.dtype()), a.device());
}

// Returns x^p in the type of x; intermediate results have more digits.
Tensor power(const Tensor& x, double p) {
  if (p == 2) return run(BinaryOp::mul, x, x);
  if (by_products(p)) {
    const Tensor wide = x.dtype() == DType::bf16 ? cast(x, DType::f32) : x;
    const Tensor y = product_power(wide, std::abs(p));
    return cast(p < 0 ? run(BinaryOp::div, ones_like(y), y) : y, x.dtype());
  }
  if (p == std::floor(p)) {
    return each(x, full(x.shape(), DType::f64, p),
                [](double u, double v) { return std::pow(u, v); });
  }
  // Uses float64, for which only the CPU has kernels: same bits on any device.
  const Tensor wide = cast(to_device(x, kCpu), DType::f64);
  const Tensor log = run(Activation::log, wide);
  const Tensor y = cast(run(Activation::exp, scaled(log, p)), x.dtype());
  return to_device(y, x.device());
}

Node::Gradients power_gradients(const Node& node, const Tensor& dy) {
  const Tensor &x = node.saved(0), &p = node.saved(1);
  Node::Gradients gradients(2);
  // d(x^p) = p x^(p-1) dx + x^p log x dp. The constant x^0 has slope 0 in x;
  // 0^p with p >= 0 has slope 0 in p.
  if (node.wants(0)) {
    const auto slope = [](double a, double b) {
      return b == 0 ? 0.0 : b * std::pow(a, b - 1);
    };
    gradients[0] = run(BinaryOp::mul, dy, each(x, p, slope));
  }
  if (node.wants(1)) {
    const auto slope = [](double a, double b) {
      return a == 0 && b >= 0 ? 0.0 : std::pow(a, b) * std::log(a);
    };
    gradients[1] = run(BinaryOp::mul, dy, each(x, p, slope));
  }
  return gradients;
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
        // d(x^p) = p x^(p-1) dx; the constant x^0 has gradient 0.
        if (exponent == 0) {
          return Node::Gradients{zeros(dy.shape(), dy.dtype(), dy.device())};
        }
        const Tensor slope = power(node.saved(0), exponent - 1);
        return Node::Gradients{scaled(run(BinaryOp::mul, dy, slope), exponent)};
      });
}

Var pow(const Var& x, const Var& exponent) {
  EA_CHECK_AS(DTypeError,
              is_floating(x.dtype()) && x.dtype() == exponent.dtype(), "pow",
              "expected two tensors of one floating type, got {} and {}; use "
              ".to(dtype)",
              x.dtype(), exponent.dtype());
  // Adding zeros broadcasts both to one shape; the backward of add sums the
  // gradients back.
  const Shape shape = broadcast_shapes(x.shape(), exponent.shape(), "pow");
  const Var zero(zeros(shape, x.dtype(), x.device()));
  const Var base = x.shape() == shape ? x : add(x, zero);
  const Var to = exponent.shape() == shape ? exponent : add(exponent, zero);
  const Tensor a = contiguous(base.data()), p = contiguous(to.data());
  return record("pow",
                each(a, p, [](double u, double v) { return std::pow(u, v); }),
                {base, to}, {a, p}, &power_gradients);
}

}  // namespace ea
