// Draws blocks of normal numbers from Philox.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/random.h"

namespace ea {

// Maps a random word to a uniform number in (0, 1).
inline double uniform_of(std::uint32_t word) {
  return (static_cast<double>(word) + 0.5) / 4294967296.0;
}

constexpr std::size_t kNormalBlock = 128;
using NormalBlock = std::array<double, kNormalBlock>;

// Fills `out`: number j is the N(0, 1) draw of counter `index + j`, by the
// Box-Muller formula sqrt(-2 log u) cos(2 pi v). No libm function is called, so
// the bits are the same on every machine.
void draw_normals(const RandomState& s, std::uint64_t index, NormalBlock& out);

// Returns the draw of counter `index`.
double draw_normal(const RandomState& s, std::uint64_t index);

}  // namespace ea
