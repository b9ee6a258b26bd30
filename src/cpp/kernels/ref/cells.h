// Sums and softmax over the cells of maps of any layout, cell by cell.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/ref/wide.h"

namespace ea::ref {

// A cell has `at`, its element of the flat maps, and `query` and `key`, its
// rows of [tokens, heads]. `cells` calls its argument with each cell that
// exists.

// maps[cell] = scale x[query] . y[key], for vectors of d elements.
template <typename T, typename Cells>
void cell_products(const TensorView& x, const TensorView& y,
                   const TensorView& maps, double scale, std::int64_t d,
                   const Cells& cells) {
  using A = Accumulator<T>;
  cells([&](const auto& cell) {
    const T* u = x.as<const T>() + cell.query * d;
    const T* v = y.as<const T>() + cell.key * d;
    A sum = 0;
    for (std::int64_t e = 0; e < d; ++e) sum += A(u[e]) * A(v[e]);
    maps.as<T>()[cell.at] = T(A(scale) * sum);
  });
}

// to[query] = scale sum of maps[cell] x[key] over the query's cells. Queries
// and keys change places if not kQueries.
template <typename T, bool kQueries, typename Cells>
void weighted_sums(const TensorView& maps, const TensorView& x,
                   const TensorView& to, double scale, std::int64_t d,
                   const Cells& cells) {
  using A = Accumulator<T>;
  std::vector<A> total(static_cast<std::size_t>(to.numel()));
  cells([&](const auto& cell) {
    const A weight = A(maps.as<const T>()[cell.at]);
    const T* from = x.as<const T>() + (kQueries ? cell.key : cell.query) * d;
    A* sums = total.data() + (kQueries ? cell.query : cell.key) * d;
    for (std::int64_t e = 0; e < d; ++e) sums[e] += weight * A(from[e]);
  });
  for (A& sum : total) sum *= A(scale);
  write_wide<T>(total, to);
}

// y[cell] = u[query] + v[key], vectors of d elements.
template <typename T, typename Cells>
void pair_sums(const TensorView& u, const TensorView& v, const TensorView& y,
               std::int64_t d, const Cells& cells) {
  using A = Accumulator<T>;
  cells([&](const auto& cell) {
    const T* query = u.as<const T>() + cell.query * d;
    const T* key = v.as<const T>() + cell.key * d;
    T* to = y.as<T>() + cell.at * d;
    for (std::int64_t e = 0; e < d; ++e) to[e] = T(A(query[e]) + A(key[e]));
  });
}

// to[query] = sum of dy[cell] over the query's cells; to[key], over the key's,
// if not kQueries. y = u + v is linear with one 1 per cell for u and for v, so
// this is the transpose of pair_sums().
template <typename T, bool kQueries, typename Cells>
void sums_of_pairs(const TensorView& dy, const TensorView& to, std::int64_t d,
                   const Cells& cells) {
  using A = Accumulator<T>;
  std::vector<A> total(static_cast<std::size_t>(to.numel()));
  cells([&](const auto& cell) {
    const T* from = dy.as<const T>() + cell.at * d;
    A* sums = total.data() + (kQueries ? cell.query : cell.key) * d;
    for (std::int64_t e = 0; e < d; ++e) sums[e] += A(from[e]);
  });
  write_wide<T>(total, to);
}

// Calls fn(row) with the elements of each query's cells, if it has any. `cells`
// must list them one after another.
template <typename Cells, typename Fn>
void for_each_query_row(const Cells& cells, const Fn& fn) {
  std::vector<std::int64_t> row;
  std::int64_t query = -1;
  cells([&](const auto& cell) {
    if (cell.query != query && !row.empty()) {
      fn(row);
      row.clear();
    }
    query = cell.query;
    row.push_back(cell.at);
  });
  if (!row.empty()) fn(row);
}

// y = softmax of scale x over each query's cells.
template <typename T, typename Cells>
void cell_softmax(const TensorView& x, const TensorView& y, double scale,
                  const Cells& cells) {
  using A = Accumulator<T>;
  for_each_query_row(cells, [&](const std::vector<std::int64_t>& row) {
    const auto scaled = [&](std::int64_t at) {
      return A(scale) * A(x.as<const T>()[at]);
    };
    A largest = -std::numeric_limits<A>::infinity();
    for (const std::int64_t at : row) largest = std::max(largest, scaled(at));
    // A NaN or +inf makes one term, hence the sum and the whole row, NaN.
    A total = 0;
    for (const std::int64_t at : row) total += std::exp(scaled(at) - largest);
    for (const std::int64_t at : row) {
      y.as<T>()[at] = T(std::exp(scaled(at) - largest) / total);
    }
  });
}

// y_j = exp(t_j) / sum, t = scale x: dy_j/dx_i = scale y_j ([i = j] - y_i), so
// dx_i = scale y_i (dy_i - sum_j dy_j y_j).
template <typename T, typename Cells>
void cell_softmax_backward(const TensorView& dy, const TensorView& y,
                           const TensorView& dx, double scale,
                           const Cells& cells) {
  using A = Accumulator<T>;
  for_each_query_row(cells, [&](const std::vector<std::int64_t>& row) {
    A dot = 0;
    for (const std::int64_t at : row) {
      dot += A(dy.as<const T>()[at]) * A(y.as<const T>()[at]);
    }
    for (const std::int64_t at : row) {
      dx.as<T>()[at] = T(A(scale) * A(y.as<const T>()[at]) *
                         (A(dy.as<const T>()[at]) - dot));
    }
  });
}

}  // namespace ea::ref
