// Tests the bits of the numbers: a comparison for each number would keep the
// compiler from vectorising the loop.
#include "tensor/finite.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "runtime/bfloat16.h"
#include "runtime/threads.h"

namespace ea {

namespace {

// Exponent bits; all ones in NaN and infinity.
template <typename T>
struct Exponent;
template <>
struct Exponent<float> {
  using Bits = std::uint32_t;
  static constexpr Bits mask = 0x7F800000;
};
template <>
struct Exponent<double> {
  using Bits = std::uint64_t;
  static constexpr Bits mask = 0x7FF0000000000000;
};
template <>
struct Exponent<bfloat16> {
  using Bits = std::uint16_t;
  static constexpr Bits mask = 0x7F80;
};

template <typename T>
bool is_bad(T value) {
  using E = Exponent<T>;
  return (std::bit_cast<typename E::Bits>(value) & E::mask) == E::mask;
}

template <typename T>
std::int64_t first_of(const T* values, std::int64_t n) {
  constexpr std::int64_t kGrain = 1 << 16;
  std::atomic<bool> found = false;
  parallel_chunks(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    typename Exponent<T>::Bits bad = 0;
    for (std::int64_t i = begin; i < end; ++i) bad |= is_bad(values[i]) ? 1 : 0;
    if (bad != 0) found = true;
  });
  return found ? std::find_if(values, values + n, is_bad<T>) - values : -1;
}

}  // namespace

std::int64_t first_not_finite(std::span<const float> values) {
  return first_of(values.data(), static_cast<std::int64_t>(values.size()));
}

std::int64_t first_not_finite(const TensorView& t) {
  if (!is_floating(t.dtype)) return -1;
  std::int64_t first = -1;
  visit_floating(t.dtype, "isfinite", [&](auto tag) {
    using T = typename decltype(tag)::type;
    first = first_of(t.as<T>(), t.numel());
  });
  return first;
}

}  // namespace ea
