// Tells which cells of flat maps exist (kernels/map_layout.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/map_conv.h"
#include "kernels/map_layout.h"

namespace ea::ref {

inline bool exists(const MapLayout& layout, std::int64_t b, std::int64_t i,
                   std::int64_t j) {
  const std::uint8_t* const mask = layout.mask(b);
  return j < layout.columns(b, i) && (mask == nullptr || mask[j] != 0);
}

// Writes 0 to the cells of sequence b's maps that do not exist or that a shift
// moves in.
template <typename A>
void keep_existing(const MapLayout& layout, std::int64_t b, A* maps,
                   const MapShift& shift = {}) {
  if (layout.dense() && shift.none()) return;
  for (std::int64_t h = 0; h < layout.heads; ++h) {
    for (std::int64_t i = 0; i < layout.n_q(b); ++i) {
      for (std::int64_t j = 0; j < layout.n_k(b); ++j, ++maps) {
        const bool moved_in = i < shift.down || j < shift.right;
        if (moved_in || !exists(layout, b, i, j)) *maps = A(0);
      }
    }
  }
}

// Calls keep_existing() for all sequences.
template <typename A>
void keep_all_existing(const MapLayout& layout, A* maps) {
  for (std::int64_t b = 0; b < layout.sequences; ++b) {
    keep_existing(layout, b, maps + layout.begin(b));
  }
}

}  // namespace ea::ref
