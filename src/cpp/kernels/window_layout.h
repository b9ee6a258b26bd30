// Memory layout of the attention maps of windows (Yang et al., NAACL 2019).
#pragma once

#include <cstdint>

#include "kernels/map_layout.h"

namespace ea {

// Neighbours of heads at the border: `clip` omits missing ones, `wrap`
// continues at the other end, `clamp` repeats the head at the border. `author`
// follows the authors' released program: keys wrap, values clamp.
enum class HeadBorder { clip, wrap, clamp, author };

// A query of head h attends to the keys of `size` positions around its own in
// `heads` heads around h. Both are odd, and a map has at least `heads` heads.
struct Window {
  std::int64_t size = 1;
  std::int64_t heads = 1;
  HeadBorder border = HeadBorder::clip;

  friend bool operator==(const Window&, const Window&) = default;
};

// Neighbours of `count` heads, `span` for each head.
struct HeadNeighbours {
  std::int64_t count, span;
  bool wrap, clamp;

  // Returns the head that is neighbour a of head h, or -1 if there is none.
  constexpr std::int64_t of(std::int64_t h, std::int64_t a) const {
    const std::int64_t g = h + a - span / 2;
    if (g >= 0 && g < count) return g;
    if (wrap) return g < 0 ? g + count : g - count;
    if (clamp) return g < 0 ? 0 : count - 1;
    return -1;
  }

  // Range of heads, including `last`; empty if last < first.
  struct Run {
    std::int64_t first, last;
  };
  // Returns the heads whose neighbour a is head g.
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

// Maps with one row for each query and one column for each position in its
// window, instead of one for each key: column a width + o of row i and head h
// is the key of token i + o - width / 2 in neighbour a of h. The width of
// sequence b is min(size, 2 n - 1) for its n tokens; wider windows would have
// empty positions.
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
  HeadNeighbours neighbours(bool of_values) const {
    return of_values ? values() : keys();
  }
};

}  // namespace ea
