// Cells of flat maps, and which of them exist (kernels/map_layout.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/map_conv.h"
#include "kernels/map_layout.h"

namespace ea::ref {

// A cell of MapLayout: query i and key j of head h of sequence b.
struct MapCell {
  std::int64_t at, query, key;
  std::int64_t b, h, i, j;
};

// Calls fn(cell) for each cell, in the order of the maps, whether it exists or
// not.
template <typename Fn>
void for_each_map_cell(const MapLayout& layout, const Fn& fn) {
  const std::int64_t heads = layout.heads;
  std::int64_t at = 0;
  for (std::int64_t b = 0; b < layout.sequences; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < layout.n_q(b); ++i) {
        for (std::int64_t j = 0; j < layout.n_k(b); ++j, ++at) {
          const std::int64_t query = (layout.q_offsets[b] + i) * heads + h;
          const std::int64_t key = (layout.k_offsets[b] + j) * heads + h;
          fn(MapCell{at, query, key, b, h, i, j});
        }
      }
    }
  }
}

// Returns for_each_map_cell() of a layout: `cells` of kernels/ref/cells.h.
inline auto map_cells(const MapLayout& layout) {
  return [&layout](const auto& fn) { for_each_map_cell(layout, fn); };
}

inline bool exists(const MapLayout& layout, std::int64_t b, std::int64_t i,
                   std::int64_t j) {
  const std::uint8_t* const mask = layout.mask(b);
  return j < layout.columns(b, i) && (mask == nullptr || mask[j] != 0);
}

// Returns the loop of map_cells() over the cells that exist.
inline auto existing_cells(const MapLayout& layout) {
  return [&layout](const auto& fn) {
    for_each_map_cell(layout, [&](const MapCell& cell) {
      if (exists(layout, cell.b, cell.i, cell.j)) fn(cell);
    });
  };
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
