// Comparisons run on the host, in int64 or float64: they have no gradient.
#include "ops/compare.h"

#include <functional>

#include "ops/extent.h"
#include "ops/host_values.h"
#include "runtime/check.h"

namespace ea {

namespace {

template <typename T, typename Holds>
void fill(const Tensor& a, const Tensor& b, const Tensor& y, Holds holds) {
  const T* pa = a.data<T>();
  const T* pb = b.data<T>();
  auto* out = y.data<bool>();
  for (std::int64_t i = 0; i < y.numel(); ++i) out[i] = holds(pa[i], pb[i]);
}

template <typename T>
void fill(Comparison op, const Tensor& a, const Tensor& b, const Tensor& y) {
  switch (op) {
    case Comparison::equal:
      return fill<T>(a, b, y, std::equal_to<T>());
    case Comparison::not_equal:
      return fill<T>(a, b, y, std::not_equal_to<T>());
    case Comparison::less:
      return fill<T>(a, b, y, std::less<T>());
    case Comparison::less_equal:
      return fill<T>(a, b, y, std::less_equal<T>());
    case Comparison::greater:
      return fill<T>(a, b, y, std::greater<T>());
    case Comparison::greater_equal:
      return fill<T>(a, b, y, std::greater_equal<T>());
  }
}

// Finds maxima, or minima with `sign` -1, along n. x is [outer, n, inner].
template <typename T>
void find_extremes(const Tensor& x, const Extent& e, T sign,
                   const Tensor& places) {
  const T* values = x.data<T>();
  auto* out = places.data<std::int64_t>();
  for (std::int64_t o = 0; o < e.outer; ++o) {
    for (std::int64_t i = 0; i < e.inner; ++i) {
      const T* column = values + o * e.n * e.inner + i;
      std::int64_t best = 0;
      for (std::int64_t k = 1; k < e.n; ++k) {
        const T found = column[best * e.inner];
        const T next = column[k * e.inner];
        // Only NaN differs from itself.
        const bool nan = next != next && found == found;
        if (nan || (sign < 0 ? next < found : next > found)) best = k;
      }
      out[o * e.inner + i] = best;
    }
  }
}

Tensor extremes(const char* op, const Tensor& x, std::optional<int> axis,
                bool keepdims, int sign) {
  const Extent e = extent_of(x.shape(), axis, op);
  EA_CHECK(e.n > 0 || e.outer * e.inner == 0, op,
           "{} of no elements (shape {})", op, x.shape());
  const Shape shape = keepdims ? e.kept : e.dropped;
  const Tensor places = empty(shape, DType::i64);
  if (is_floating(x.dtype())) {
    find_extremes<double>(host_values(x, x.shape(), DType::f64), e, sign,
                          places);
  } else {
    find_extremes<std::int64_t>(host_values(x, x.shape(), DType::i64), e, sign,
                                places);
  }
  return to_device(places, x.device());
}

}  // namespace

Tensor compare(Comparison op, const Tensor& a, const Tensor& b) {
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), "compare");
  const bool floats = is_floating(a.dtype()) || is_floating(b.dtype());
  const DType dtype = floats ? DType::f64 : DType::i64;
  const Tensor left = host_values(a, shape, dtype);
  const Tensor right = host_values(b, shape, dtype);
  const Tensor y = empty(shape, DType::boolean);
  if (floats) {
    fill<double>(op, left, right, y);
  } else {
    fill<std::int64_t>(op, left, right, y);
  }
  return to_device(y, a.device());
}

Tensor combine(Logic op, const Tensor& a, const Tensor& b) {
  for (const Tensor* mask : {&a, &b}) {
    EA_CHECK_AS(DTypeError, is_mask(mask->dtype()), "mask",
                "expected two masks, as comparisons give them, got "
                "{} and {}; compare numbers with 0 first",
                a.dtype(), b.dtype());
  }
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), "mask");
  const Tensor left = host_values(a, shape, DType::boolean);
  const Tensor right = host_values(b, shape, DType::boolean);
  const Tensor y = empty(shape, DType::boolean);
  switch (op) {
    case Logic::both:
      fill<bool>(left, right, y, std::logical_and<bool>());
      break;
    case Logic::either:
      fill<bool>(left, right, y, std::logical_or<bool>());
      break;
    case Logic::one:
      fill<bool>(left, right, y, std::not_equal_to<bool>());
      break;
  }
  return to_device(y, a.device());
}

Tensor argmax(const Tensor& x, std::optional<int> axis, bool keepdims) {
  return extremes("argmax", x, axis, keepdims, 1);
}

Tensor argmin(const Tensor& x, std::optional<int> axis, bool keepdims) {
  return extremes("argmin", x, axis, keepdims, -1);
}

}  // namespace ea
