// Normal numbers, many at once, drawn from Philox.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/random.h"

namespace ea {

// Uniform in (0, 1).
inline double uniform_of(std::uint32_t word) {
  return (static_cast<double>(word) + 0.5) / 4294967296.0;
}

constexpr std::size_t kNormalBlock = 128;
using NormalBlock = std::array<double, kNormalBlock>;

// Number j is N(0, 1) of counter `index + j`, by Box and Muller's formula
// sqrt(-2 log u) cos(2 pi v). No libm computes it, so that the bits are the
// same on every machine.
void draw_normals(const RandomState& s, std::uint64_t index, NormalBlock& out);

// The one of this counter.
double draw_normal(const RandomState& s, std::uint64_t index);

}  // namespace ea
