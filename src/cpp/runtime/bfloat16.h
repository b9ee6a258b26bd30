// Storage-only bfloat16: the upper half of a float32, rounded to nearest even.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "runtime/host_device.h"

namespace ea {

struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  EA_HOST_DEVICE explicit bfloat16(float value) {
    std::uint32_t u;
    std::memcpy(&u, &value, sizeof u);
    // A NaN must stay NaN: rounding could carry its mantissa into infinity.
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<std::uint16_t>((u >> 16) | 0x0040u);
    } else {
      bits = static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  EA_HOST_DEVICE explicit operator float() const {
    const std::uint32_t u = static_cast<std::uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &u, sizeof value);
    return value;
  }
};

static_assert(sizeof(bfloat16) == 2);

// Converts between element types; bfloat16 converts through float.
template <typename To, typename From>
EA_HOST_DEVICE inline To convert(From value) {
  if constexpr (std::is_same_v<To, bfloat16>) {
    return bfloat16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<From, bfloat16>) {
    return static_cast<To>(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace ea
