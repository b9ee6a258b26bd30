// Philox4x32-10 (Salmon et al., SC 2011): random bits from a counter, no state.
#pragma once

#include <cstdint>

#include "runtime/host_device.h"

namespace ea {

struct Philox4 {
  std::uint32_t v[4];
};

// Four words that depend only on (seed, stream, index): the same on every
// device and for every number of threads.
EA_HOST_DEVICE inline Philox4 philox(std::uint64_t seed, std::uint64_t stream,
                                     std::uint64_t index) {
  std::uint32_t c0 = static_cast<std::uint32_t>(index);
  std::uint32_t c1 = static_cast<std::uint32_t>(index >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(stream);
  std::uint32_t c3 = static_cast<std::uint32_t>(stream >> 32);
  std::uint32_t k0 = static_cast<std::uint32_t>(seed);
  std::uint32_t k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c2;
    const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// Element i is kept iff word i%4 of philox(seed, stream, i/4) is at least this.
EA_HOST_DEVICE inline std::uint32_t dropout_threshold(double probability) {
  const double scaled = probability * 4294967296.0;
  return scaled >= 4294967295.0 ? 0xFFFFFFFFu
                                : static_cast<std::uint32_t>(scaled);
}

}  // namespace ea
