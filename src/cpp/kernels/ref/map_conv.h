// Convolution of one sequence's maps, and its transposes, in the accumulator's
// type.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/ref/map_cells.h"
#include "kernels/ref/wide.h"

namespace ea::ref {

// Sizes of one sequence's maps [heads, n_q, n_k] and of the convolution kernel,
// and the shift of the result.
struct MapGeometry {
  std::int64_t heads, n_q, n_k, kernel;
  MapShift shift;

  MapGeometry(const MapLayout& layout, std::int64_t sequence,
              std::int64_t kernel_size, const MapShift& moved)
      : heads(layout.heads),
        n_q(layout.n_q(sequence)),
        n_k(layout.n_k(sequence)),
        kernel(kernel_size),
        shift(moved) {}
  std::int64_t cells() const { return heads * n_q * n_k; }
};

// Calls fn(y_at, x_at, weight_at, count) for each output row, and each input
// row that it reads through one tap weight[o, c, u, v]:
//   y[o, i + down, j + right] reads x[c, i + u - r, j + v - r].
// From y_at and x_at on, `count` neighbouring cells of both rows lie inside the
// map. Cells outside it never appear: this is zero padding, for the sum and for
// its transposes.
template <typename Fn>
void for_each_row_pair(const MapGeometry& g, Fn&& fn) {
  const std::int64_t r = (g.kernel - 1) / 2;
  for (std::int64_t o = 0; o < g.heads; ++o) {
    for (std::int64_t i = 0; i < g.n_q - g.shift.down; ++i) {
      for (std::int64_t c = 0; c < g.heads; ++c) {
        for (std::int64_t u = 0; u < g.kernel; ++u) {
          const std::int64_t row = i + u - r;
          if (row < 0 || row >= g.n_q) continue;
          for (std::int64_t v = 0; v < g.kernel; ++v) {
            const std::int64_t first = std::max<std::int64_t>(0, r - v);
            const std::int64_t last =
                std::min(g.n_k - g.shift.right, g.n_k + r - v);
            if (first >= last) continue;
            fn((o * g.n_q + i + g.shift.down) * g.n_k + first + g.shift.right,
               (c * g.n_q + row) * g.n_k + first + v - r,
               ((o * g.heads + c) * g.kernel + u) * g.kernel + v, last - first);
          }
        }
      }
    }
  }
}

template <typename A>
std::vector<A> convolve(const MapGeometry& g, const std::vector<A>& x,
                        const std::vector<A>& weight,
                        const std::vector<A>& bias) {
  std::vector<A> y(static_cast<std::size_t>(g.cells()));
  for (std::int64_t o = 0; o < g.heads; ++o) {
    std::fill_n(y.begin() + o * g.n_q * g.n_k, g.n_q * g.n_k, bias[o]);
  }
  for_each_row_pair(g, [&](auto y_at, auto x_at, auto w_at, auto count) {
    const A w = weight[w_at];
    for (std::int64_t j = 0; j < count; ++j) y[y_at + j] += w * x[x_at + j];
  });
  return y;
}

// Returns dx: each product w x of the forward sum adds w dy to the gradient of
// its x.
template <typename A>
std::vector<A> convolve_input_gradient(const MapGeometry& g,
                                       const std::vector<A>& dy,
                                       const std::vector<A>& weight) {
  std::vector<A> dx(static_cast<std::size_t>(g.cells()));
  for_each_row_pair(g, [&](auto y_at, auto x_at, auto w_at, auto count) {
    const A w = weight[w_at];
    for (std::int64_t j = 0; j < count; ++j) dx[x_at + j] += w * dy[y_at + j];
  });
  return dx;
}

// Adds this sequence's sums to dweight and dbias: each product w x of the
// forward sum adds x dy to the gradient of its w.
template <typename A>
void add_weight_gradient(const MapGeometry& g, const std::vector<A>& dy,
                         const std::vector<A>& x, std::vector<A>& dweight,
                         std::vector<A>& dbias) {
  std::vector<A> mine(dweight.size());
  for_each_row_pair(g, [&](auto y_at, auto x_at, auto w_at, auto count) {
    A dot = 0;
    for (std::int64_t j = 0; j < count; ++j) dot += dy[y_at + j] * x[x_at + j];
    mine[w_at] += dot;
  });
  for (std::size_t i = 0; i < mine.size(); ++i) dweight[i] += mine[i];
  for (std::int64_t o = 0; o < g.heads; ++o) {
    A total = 0;
    for (std::int64_t i = 0; i < g.n_q; ++i) {
      A row = 0;
      for (std::int64_t j = 0; j < g.n_k; ++j) {
        row += dy[(o * g.n_q + i) * g.n_k + j];
      }
      total += row;
    }
    dbias[o] += total;
  }
}

}  // namespace ea::ref
