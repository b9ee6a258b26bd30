// Binary arithmetic; the gradient of a broadcast input is summed back.
#include "ops/arithmetic.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>

#include "autograd/node.h"
#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "kernels/registry.h"
#include "ops/host_values.h"
#include "runtime/check.h"

namespace ea {

namespace {

Tensor run_binary(BinaryOp op, const Tensor& a, const Tensor& b,
                  const Shape& shape) {
  Tensor y = empty(shape, a.dtype(), a.device());
  kernels::run<Binary>({op, expand_view(a, shape), expand_view(b, shape), y});
  return y;
}

Tensor run_scale(const Tensor& x, double alpha) {
  Tensor y = empty_like(x);
  kernels::run<Axpby>({alpha, x, 0.0, {}, y});
  return y;
}

// Sums a gradient over the axes along which its input was broadcast.
Tensor sum_to(Tensor g, const Shape& shape) {
  if (g.shape() == shape) return g;
  const int lead = g.rank() - shape.rank();
  Shape current = g.shape();
  for (int axis = 0; axis < current.rank(); ++axis) {
    const bool broadcast =
        axis < lead || (shape[axis - lead] == 1 && current[axis] != 1);
    if (!broadcast) continue;
    std::int64_t outer = 1;
    std::int64_t inner = 1;
    for (int i = 0; i < axis; ++i) outer *= current[i];
    for (int i = axis + 1; i < current.rank(); ++i) inner *= current[i];
    const Tensor view =
        reshape_view(contiguous(g), {outer, current[axis], inner});
    g = empty({outer, inner}, g.dtype(), g.device());
    kernels::run<Sum>({view, g});
    current[axis] = 1;
    g = reshape_view(g, current);
  }
  return reshape_view(g, shape);
}

void check_pair(const char* op, const Tensor& a, const Tensor& b) {
  EA_CHECK_AS(DTypeError, a.dtype() == b.dtype(), op,
              "expected two tensors of one type, got {} and {}; use .to(dtype)",
              a.dtype(), b.dtype());
}

// The operands in one type: whole numbers and masks next to floating numbers
// take their type, masks next to whole numbers count as 0 and 1.
std::pair<Var, Var> paired(const char* op, const Var& a, const Var& b) {
  const auto wider = [](const Var& x, const Var& y) {
    return (is_floating(x.dtype()) && !is_floating(y.dtype())) ||
           (x.dtype() != DType::boolean && y.dtype() == DType::boolean);
  };
  if (wider(a, b)) return {a, cast(b, a.dtype())};
  if (wider(b, a)) return {cast(a, b.dtype()), b};
  check_pair(op, a.data(), b.data());
  return {a, b};
}

// Calculates on the host with whole numbers, which have no gradient.
template <typename Fn>
Var whole(const char* op, const Var& a, const Var& b, Fn fn) {
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), op);
  const Tensor left = host_values(a.data(), shape, DType::i64);
  const Tensor right = host_values(b.data(), shape, DType::i64);
  const Tensor y = empty(shape, DType::i64);
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const auto u = static_cast<std::uint64_t>(left.data<std::int64_t>()[i]);
    const auto v = static_cast<std::uint64_t>(right.data<std::int64_t>()[i]);
    y.data<std::int64_t>()[i] = static_cast<std::int64_t>(fn(u, v));  // wraps
  }
  return Var(to_device(cast(y, a.dtype()), a.device()));
}

// The quotient rounded down and the remainder, as Python's // and % give them.
std::pair<double, double> floored(double a, double b) {
  double rest = std::fmod(a, b);
  if (b == 0) return {a / b, rest};
  double quotient = (a - rest) / b;  // whole but for rounding
  if (rest != 0 && (rest < 0) != (b < 0)) {
    rest += b;
    quotient -= 1;
  }
  return {std::nearbyint(quotient), rest};
}

std::pair<std::int64_t, std::int64_t> floored(std::int64_t a, std::int64_t b) {
  // The lowest a has no -a; unsigned numbers wrap.
  if (b == -1) {
    return {static_cast<std::int64_t>(-static_cast<std::uint64_t>(a)), 0};
  }
  std::int64_t quotient = a / b, rest = a % b;
  if (rest != 0 && (rest < 0) != (b < 0)) {
    rest += b;
    --quotient;
  }
  return {quotient, rest};
}

struct Division {
  Tensor quotient, rest;
};

template <typename T>
Division floored(const char* op, const Tensor& a, const Tensor& b, DType wide) {
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), op);
  const Tensor left = host_values(a, shape, wide);
  const Tensor right = host_values(b, shape, wide);
  const Division y{empty(shape, wide), empty(shape, wide)};
  const T* divisors = right.data<T>();
  EA_CHECK_AS(InputError,
              wide != DType::i64 ||
                  std::count(divisors, divisors + right.numel(), T{0}) == 0,
              op, "an integer is divided by 0; expected divisors other than 0");
  for (std::int64_t i = 0; i < left.numel(); ++i) {
    std::tie(y.quotient.data<T>()[i], y.rest.data<T>()[i]) =
        floored(left.data<T>()[i], divisors[i]);
  }
  return {to_device(cast(y.quotient, a.dtype()), a.device()),
          to_device(cast(y.rest, a.dtype()), a.device())};
}

Division floored(const char* op, const Tensor& a, const Tensor& b) {
  return is_floating(a.dtype()) ? floored<double>(op, a, b, DType::f64)
                                : floored<std::int64_t>(op, a, b, DType::i64);
}

}  // namespace

Var add(const Var& x, const Var& y) {
  const auto [a, b] = paired("add", x, y);
  if (!is_floating(a.dtype())) return whole("add", a, b, std::plus<>());
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), "add");
  const Shape sa = a.shape();
  const Shape sb = b.shape();
  return record("add", run_binary(BinaryOp::add, a.data(), b.data(), shape),
                {a, b}, {}, [sa, sb](const Node&, const Tensor& dy) {
                  return Node::Gradients{sum_to(dy, sa), sum_to(dy, sb)};
                });
}

Var sub(const Var& x, const Var& y) {
  const auto [a, b] = paired("sub", x, y);
  EA_CHECK_AS(DTypeError, a.dtype() != DType::boolean, "sub",
              "masks have no difference; use ^ for elements that differ, or "
              ".to('int64')");
  if (!is_floating(a.dtype())) return whole("sub", a, b, std::minus<>());
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), "sub");
  const Shape sa = a.shape();
  const Shape sb = b.shape();
  return record("sub", run_binary(BinaryOp::sub, a.data(), b.data(), shape),
                {a, b}, {}, [sa, sb](const Node& node, const Tensor& dy) {
                  Tensor db;
                  if (node.wants(1)) db = sum_to(run_scale(dy, -1.0), sb);
                  return Node::Gradients{sum_to(dy, sa), db};
                });
}

Var mul(const Var& x, const Var& y) {
  const auto [a, b] = paired("mul", x, y);
  if (!is_floating(a.dtype())) return whole("mul", a, b, std::multiplies<>());
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), "mul");
  return record(
      "mul", run_binary(BinaryOp::mul, a.data(), b.data(), shape), {a, b},
      {a.data(), b.data()}, [](const Node& node, const Tensor& dy) {
        // d(ab) = b da + a db
        Node::Gradients grads(2);
        for (const int i : {0, 1}) {
          if (!node.wants(i)) continue;
          const Tensor& other = node.saved(1 - i);
          grads[i] = sum_to(run_binary(BinaryOp::mul, dy, other, dy.shape()),
                            node.saved(i).shape());
        }
        return grads;
      });
}

Var div(const Var& x, const Var& z) {
  const auto [a, b] = paired("div", x, z);
  if (!is_floating(a.dtype())) {
    return div(cast(a, DType::f32), cast(b, DType::f32));
  }
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), "div");
  const Tensor y = run_binary(BinaryOp::div, a.data(), b.data(), shape);
  return record("div", y, {a, b}, {a.data(), b.data(), y},
                [](const Node& node, const Tensor& dy) {
                  // d(a/b) = da/b - (a/b) db/b
                  const Tensor da =
                      run_binary(BinaryOp::div, dy, node.saved(1), dy.shape());
                  Tensor db;
                  if (node.wants(1)) {
                    const Tensor t = run_binary(BinaryOp::mul, da,
                                                node.saved(2), dy.shape());
                    db = sum_to(run_scale(t, -1.0), node.saved(1).shape());
                  }
                  return Node::Gradients{sum_to(da, node.saved(0).shape()), db};
                });
}

Var floor_divide(const Var& x, const Var& y) {
  const auto [a, b] = paired("floor_divide", x, y);
  return Var(floored("floor_divide", a.data(), b.data()).quotient);
}

Var remainder(const Var& x, const Var& z) {
  const auto [a, b] = paired("remainder", x, z);
  const Division y = floored("remainder", a.data(), b.data());
  const Shape sa = a.shape();
  const Shape sb = b.shape();
  return record("remainder", y.rest, {a, b}, {y.quotient},
                [sa, sb](const Node& node, const Tensor& dy) {
                  // d(a - b q) = da - q db: q is constant between its jumps
                  Node::Gradients grads(2);
                  if (node.wants(0)) grads[0] = sum_to(dy, sa);
                  if (node.wants(1)) {
                    const Tensor t = run_binary(BinaryOp::mul, dy,
                                                node.saved(0), dy.shape());
                    grads[1] = sum_to(run_scale(t, -1.0), sb);
                  }
                  return grads;
                });
}

Var scale(const Var& x, double alpha) {
  return record("scale", run_scale(contiguous(x.data()), alpha), {x}, {},
                [alpha](const Node&, const Tensor& dy) {
                  return Node::Gradients{run_scale(dy, alpha)};
                });
}

Var negative(const Var& x) {
  if (is_floating(x.dtype())) return scale(x, -1.0);
  return sub(Var(full({}, x.dtype(), 0.0, x.device())), x);
}

Var axpby(double alpha, const Var& x, double beta, const Var& z) {
  check_pair("axpby", x.data(), z.data());
  EA_CHECK(x.shape() == z.shape(), "axpby", "shapes {} and {} differ",
           x.shape(), z.shape());
  Tensor y = empty_like(x.data());
  kernels::run<Axpby>(
      {alpha, contiguous(x.data()), beta, contiguous(z.data()), y});
  return record("axpby", y, {x, z}, {},
                [alpha, beta](const Node& node, const Tensor& dy) {
                  Node::Gradients grads(2);
                  if (node.wants(0)) grads[0] = run_scale(dy, alpha);
                  if (node.wants(1)) grads[1] = run_scale(dy, beta);
                  return grads;
                });
}

Var cast(const Var& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  const DType from = x.dtype();
  const Tensor y = cast(x.data(), dtype);
  // Whole numbers have no gradient.
  if (!is_floating(from) || !is_floating(dtype)) return Var(y);
  return record("cast", y, {x}, {}, [from](const Node&, const Tensor& dy) {
    return Node::Gradients{cast(dy, from)};
  });
}

Var to_device(const Var& x, Device device) {
  if (x.device() == device) return x;
  const Device from = x.device();
  return record("to_device", to_device(x.data(), device), {x}, {},
                [from](const Node&, const Tensor& dy) {
                  return Node::Gradients{to_device(dy, from)};
                });
}

}  // namespace ea
