// Selections as gathers of single elements, whose backward scatters.
#include "ops/selection.h"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>

#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/compare.h"
#include "ops/extent.h"
#include "ops/gather.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"

namespace ea {

namespace {

Var flat(const Var& x) { return reshape(x, {x.numel()}); }

// Row-major positions of the elements of a tensor of this shape, from `begin`.
Tensor positions(const Shape& shape, std::int64_t begin) {
  const Tensor t = empty(shape, DType::i64);
  std::iota(t.data<std::int64_t>(), t.data<std::int64_t>() + t.numel(), begin);
  return t;
}

Tensor expanded(const Tensor& t, const Shape& shape) {
  return contiguous(expand_view(t, shape));
}

// Returns the elements at the positions that argmax() or argmin() found.
Var taken(const Var& x, const Tensor& found, std::optional<int> axis,
          bool keepdims, const char* op) {
  const Extent e = extent_of(x.shape(), axis, op);
  return reshape(gather_along(x, e, found), keepdims ? e.kept : e.dropped);
}

}  // namespace

std::pair<double, double> range_of(DType dtype) {
  if (dtype == DType::boolean) return {0, 1};
  if (dtype == DType::u8) return {0, UINT8_MAX};
  if (dtype == DType::i32) return {INT32_MIN, INT32_MAX};
  return {-0x1p63, 0x1.fffffffffffffp62};
}

Var where(const Tensor& condition, const Var& a, const Var& b) {
  EA_CHECK_AS(DTypeError, a.dtype() == b.dtype(), "where",
              "expected two tensors of one type, got {} and {}; use .to(dtype)",
              a.dtype(), b.dtype());
  const Shape shape = broadcast_shapes(
      condition.shape(), broadcast_shapes(a.shape(), b.shape(), "where"),
      "where");
  const Tensor zero = full({}, condition.dtype(), 0.0, condition.device());
  const Tensor holds = expanded(
      to_device(compare(Comparison::not_equal, condition, zero), kCpu), shape);
  const Tensor index = clone(expanded(positions(a.shape(), 0), shape));
  const Tensor other = expanded(positions(b.shape(), a.numel()), shape);
  for (std::int64_t i = 0; i < index.numel(); ++i) {
    if (holds.data<std::uint8_t>()[i] != 0) continue;
    index.data<std::int64_t>()[i] = other.data<std::int64_t>()[i];
  }
  return gather_rows(concat({flat(a), flat(b)}, 0), index);
}

Var clip(const Var& x, std::optional<double> low, std::optional<double> high) {
  EA_CHECK_AS(ConfigError, low || high, "clip",
              "low and high are None; expected at least one number");
  EA_CHECK_AS(ConfigError, !low || !high || *low <= *high, "clip",
              "low {} is above high {}", low.value_or(0), high.value_or(0));
  const std::int64_t n = x.numel();
  const Tensor index = positions(x.shape(), 0);
  Var all = flat(x);
  for (const auto& [bound, beyond] : {std::pair(low, Comparison::less),
                                      std::pair(high, Comparison::greater)}) {
    if (!bound) continue;
    EA_CHECK_AS(DTypeError,
                is_floating(x.dtype()) || *bound == std::rint(*bound), "clip",
                "the bound {} of a tensor of {} would lose its fraction; use "
                ".to('float32')",
                *bound, x.dtype());
    if (!is_floating(x.dtype())) {
      const auto [least, most] = range_of(x.dtype());
      const bool lower = beyond == Comparison::less;
      if (lower ? *bound < least : *bound > most) continue;
      EA_CHECK_AS(DTypeError, lower ? *bound <= most : *bound >= least, "clip",
                  "{} holds no number beyond the bound {}; use .to('float32')",
                  x.dtype(), *bound);
    }
    const Tensor limit = full({1}, x.dtype(), *bound, x.device());
    const Tensor out = to_device(compare(beyond, x.data(), limit), kCpu);
    for (std::int64_t i = 0; i < n; ++i) {
      if (out.data<std::uint8_t>()[i] != 0) {
        index.data<std::int64_t>()[i] = all.numel();
      }
    }
    all = concat({all, Var(limit)}, 0);
  }
  return gather_rows(all, index);
}

Var abs(const Var& x) {
  if (!is_floating(x.dtype())) {
    const Tensor zero = full({}, x.dtype(), 0.0, x.device());
    const Tensor below = compare(Comparison::less, x.data(), zero);
    return x.dtype() == DType::boolean ? x : where(below, negative(x), x);
  }
  // relu(x) + relu(-x): one of the two is 0, so the sum is exact.
  return add(activation(x, Activation::relu),
             activation(scale(x, -1.0), Activation::relu));
}

Var max(const Var& x, std::optional<int> axis, bool keepdims) {
  return taken(x, argmax(x.data(), axis, false), axis, keepdims, "max");
}

Var min(const Var& x, std::optional<int> axis, bool keepdims) {
  return taken(x, argmin(x.data(), axis, false), axis, keepdims, "min");
}

}  // namespace ea
