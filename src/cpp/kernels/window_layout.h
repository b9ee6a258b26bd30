// How the maps of windows lie in memory (Yang et al., NAACL 2019).
#pragma once

#include <cstdint>

#include "kernels/map_layout.h"

namespace ea {

// Which heads are the neighbours of those at the border: `clip` leaves missing
// ones out, `wrap` goes on at the other end, `clamp` repeats the last head.
// `author` is the released program: keys wrap, values clamp.
enum class HeadBorder { clip, wrap, clamp, author };

// A query of head h sees the keys of `size` positions around its own in `heads`
// heads around h; both are odd, and a map has at least `heads` heads.
struct Window {
  std::int64_t size = 1;
  std::int64_t heads = 1;
  HeadBorder border = HeadBorder::clip;

  friend bool operator==(const Window&, const Window&) = default;
};

// The neighbours of `count` heads, `span` of each.
struct HeadNeighbours {
  std::int64_t count, span;
  bool wrap, clamp;

  // The head that neighbour a of head h is, -1 if there is none.
  constexpr std::int64_t of(std::int64_t h, std::int64_t a) const {
    const std::int64_t g = h + a - span / 2;
    if (g >= 0 && g < count) return g;
    if (wrap) return g < 0 ? g + count : g - count;
    if (clamp) return g < 0 ? 0 : count - 1;
    return -1;
  }

  // The heads whose neighbour a is head g: `first` to `last`, none if last <
  // first.
  struct Run {
    std::int64_t first, last;
  };
  constexpr Run readers(std::int64_t g, std::int64_t a) const {
    const std::int64_t h = g - a + span / 2;
    if (wrap) {
      const std::int64_t at = h < 0 ? h + count : h >= count ? h - count : h;
      return {at, at};
    }
    return {h < 0 || (clamp && g == 0) ? 0 : h,
            h >= count || (clamp && g == count - 1) ? count - 1 : h};
  }
};

// Maps with one row for each query and, in place of the keys, one column for
// each place in its window: column a width + o of row i and head h is the key
// of token i + o - width / 2 in neighbour a of h. The width of sequence b is
// min(size, 2 n - 1) for its n tokens; wider windows would have empty places.
//
// Cells whose token or neighbour is missing do not exist: the kernels of
// window_attention.h write 0 there, never read them, whatever they hold, and
// give them no gradient.
struct WindowLayout {
  MapLayout cells;  // n_k(b): the columns of sequence b, not its keys
  Window window;

  static constexpr std::int64_t width_of(const Window& window, std::int64_t n) {
    const std::int64_t all = 2 * n - 1;
    return n == 0 ? 0 : window.size < all ? window.size : all;
  }
  std::int64_t width(std::int64_t b) const {
    return cells.n_k(b) / window.heads;
  }
  HeadNeighbours keys() const {
    return {cells.heads, window.heads,
            window.border == HeadBorder::wrap ||
                window.border == HeadBorder::author,
            window.border == HeadBorder::clamp};
  }
  HeadNeighbours values() const {
    return {cells.heads, window.heads, window.border == HeadBorder::wrap,
            window.border == HeadBorder::clamp ||
                window.border == HeadBorder::author};
  }
};

}  // namespace ea
