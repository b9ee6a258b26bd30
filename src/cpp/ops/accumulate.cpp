// Products by halves, and running sums whose backward runs the other way.
#include "ops/accumulate.h"

#include <functional>

#include "autograd/node.h"
#include "ops/arithmetic.h"
#include "ops/host_values.h"
#include "ops/shape_ops.h"

namespace ea {

namespace {

// Combines int64 along n, from `first`; x is [outer, n, inner].
template <typename Combine>
Tensor combined(const Tensor& x, const Extent& e, double first,
                Combine combine) {
  const Tensor values = host_values(x, DType::i64);
  const Tensor y = full({e.outer, e.inner}, DType::i64, first);
  // Unsigned, for which overflow is defined.
  const auto* row = values.data<std::uint64_t>();
  for (std::int64_t o = 0; o < e.outer; ++o) {
    auto* made = y.data<std::uint64_t>() + o * e.inner;
    for (std::int64_t k = 0; k < e.n; ++k, row += e.inner) {
      for (std::int64_t i = 0; i < e.inner; ++i) {
        made[i] = combine(made[i], row[i]);
      }
    }
  }
  return to_device(y, x.device());
}

// Computes running sums along n in place; `backwards` starts at the last row.
template <typename T>
void run_sums(const Tensor& y, const Extent& e, bool backwards) {
  T* values = y.data<T>();
  const std::int64_t step = backwards ? -e.inner : e.inner;
  for (std::int64_t o = 0; o < e.outer; ++o) {
    T* row = values + (o * e.n + (backwards ? e.n - 1 : 0)) * e.inner;
    for (std::int64_t k = 1; k < e.n; ++k, row += step) {
      for (std::int64_t i = 0; i < e.inner; ++i) row[step + i] += row[i];
    }
  }
}

Tensor running_sums(const Tensor& x, const Extent& e, bool backwards) {
  const DType wide = is_floating(x.dtype()) ? DType::f64 : DType::i64;
  const Tensor values = host_values(x, wide);
  const Tensor y =
      x.dtype() == wide ? clone(values) : values;  // its own memory
  if (wide == DType::i64) {
    run_sums<std::uint64_t>(y, e, backwards);
    return to_device(y, x.device());
  }
  run_sums<double>(y, e, backwards);
  return to_device(cast(y, x.dtype()), x.device());
}

}  // namespace

Tensor whole_sums(const Tensor& x, const Extent& e) {
  return combined(x, e, 0.0, std::plus<>());
}

Var prod(const Var& x, std::optional<int> axis, bool keepdims) {
  const Extent e = extent_of(x.shape(), axis, "prod");
  const Shape shape = keepdims ? e.kept : e.dropped;
  if (!is_floating(x.dtype())) {
    const Tensor y = combined(x.data(), e, 1.0, std::multiplies<>());
    return Var(reshape_view(y, shape));
  }
  if (e.n == 0) return Var(full(shape, x.dtype(), 1.0, x.device()));
  // Multiplies one half by the other until one element is left: its gradient
  // is the product of all others, also where elements are 0.
  Var y = reshape(x, {e.outer, e.n, e.inner});
  if (e.n == 1) y = copied(y);
  if (x.dtype() == DType::bf16) y = cast(y, DType::f32);
  for (std::int64_t n = e.n; n > 1; n = (n + 1) / 2) {
    const std::int64_t half = n / 2;
    const Var halves = mul(slice(y, 1, 0, half), slice(y, 1, half, 2 * half));
    y = n % 2 == 0 ? halves : concat({halves, slice(y, 1, n - 1, n)}, 1);
  }
  return cast(reshape(y, shape), x.dtype());
}

Var cumsum(const Var& x, std::optional<int> axis) {
  if (!axis) return cumsum(reshape(x, {x.numel()}), 0);
  const Extent e = extent_of(x.shape(), axis, "cumsum");
  return record("cumsum", running_sums(x.data(), e, false), {x}, {},
                [e](const Node&, const Tensor& dy) {
                  // dx_i = sum of dy_k over k >= i
                  return Node::Gradients{running_sums(dy, e, true)};
                });
}

}  // namespace ea
