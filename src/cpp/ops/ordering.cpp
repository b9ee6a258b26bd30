// Sorting on the host; the elements are gathered, and backward scatters.
#include "ops/ordering.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "ops/extent.h"
#include "ops/gather.h"
#include "ops/host_values.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Finds the indices of the first k elements along n; x is [outer, n, inner],
// `places` [outer, k, inner].
template <typename T>
void find_order(const Tensor& x, const Extent& e, bool descending,
                std::int64_t k, const Tensor& places) {
  const T* values = x.data<T>();
  auto* out = places.data<std::int64_t>();
  const auto less = [](T a, T b) {  // only NaN differs from itself
    return a < b || (b != b && a == a);
  };
  std::vector<std::int64_t> order(static_cast<std::size_t>(e.n));
  for (std::int64_t row = 0; row < e.outer * e.inner; ++row) {
    const std::int64_t o = row / e.inner, i = row % e.inner;
    const T* column = values + o * e.n * e.inner + i;
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      const T u = column[a * e.inner], v = column[b * e.inner];
      if (less(u, v)) return !descending;
      if (less(v, u)) return descending;
      return a < b;
    });
    for (std::int64_t j = 0; j < k; ++j) {
      out[(o * k + j) * e.inner + i] = order[static_cast<std::size_t>(j)];
    }
  }
}

}  // namespace

Tensor order_of(const char* op, const Tensor& x, int axis, bool descending,
                std::optional<std::int64_t> k) {
  const int a = normalize_axis(axis, x.rank(), op);
  const Extent e = extent_of(x.shape(), a, op);
  const std::int64_t count = k.value_or(e.n);
  EA_CHECK(count >= 0 && count <= e.n, op,
           "k is {}, expected 0 to {}, the size of axis {} (shape {})", count,
           e.n, axis, x.shape());
  Shape shape = x.shape();
  shape[a] = count;
  const Tensor places = empty(shape, DType::i64);
  if (is_floating(x.dtype())) {
    find_order<double>(host_values(x, DType::f64), e, descending, count,
                       places);
  } else {
    find_order<std::int64_t>(host_values(x, DType::i64), e, descending, count,
                             places);
  }
  return places;
}

Ordered ordered(const char* op, const Var& x, int axis, bool descending,
                std::optional<std::int64_t> k) {
  const Tensor places = order_of(op, x.data(), axis, descending, k);
  return {gather_along(x, extent_of(x.shape(), axis, op), places),
          to_device(places, x.device())};
}

}  // namespace ea
