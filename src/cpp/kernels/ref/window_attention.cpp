// Reference for attention within windows, cell by cell.
#include "kernels/window_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/ref/run.h"

namespace ea::ref {

namespace {

// A cell that exists: its element of the flat maps, the rows of its query and
// its key among all [token, head], and its indices in padded maps.
struct Cell {
  std::int64_t at, query, key;
  std::int64_t b, h, i, a, j;
};

// Calls fn(cell) for each cell that exists, in the order of the maps.
template <typename Fn>
void for_each_cell(const WindowLayout& layout, const HeadNeighbours& heads,
                   Fn&& fn) {
  const MapLayout& cells = layout.cells;
  for (std::int64_t b = 0; b < cells.sequences; ++b) {
    const std::int64_t n = cells.n_q(b), width = layout.width(b);
    const std::int64_t first = cells.q_offsets[b];
    std::int64_t at = cells.begin(b);
    for (std::int64_t h = 0; h < cells.heads; ++h) {
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t a = 0; a < layout.window.heads; ++a) {
          const std::int64_t g = heads.of(h, a);
          for (std::int64_t o = 0; o < width; ++o, ++at) {
            const std::int64_t j = i + o - width / 2;
            if (g < 0 || j < 0 || j >= n) continue;
            fn(Cell{at, (first + i) * cells.heads + h,
                    (first + j) * cells.heads + g, b, h, i, a, j});
          }
        }
      }
    }
  }
}

template <typename T>
void clear(const TensorView& maps) {
  std::fill_n(maps.as<T>(), maps.numel(), T(0.0f));
}

// maps = scale x . y for each cell, with x of its query and y of its key.
template <typename T>
void products(const TensorView& x, const TensorView& y, const TensorView& maps,
              double scale, const WindowLayout& layout,
              const HeadNeighbours& heads) {
  using A = Accumulator<T>;
  const std::int64_t d = x.dim(1) / layout.cells.heads;
  clear<T>(maps);
  for_each_cell(layout, heads, [&](const Cell& cell) {
    const T* u = x.as<const T>() + cell.query * d;
    const T* v = y.as<const T>() + cell.key * d;
    A sum = 0;
    for (std::int64_t e = 0; e < d; ++e) sum += A(u[e]) * A(v[e]);
    maps.as<T>()[cell.at] = T(A(scale) * sum);
  });
}

// to = scale sum of maps x over the cells of each row of `to`. Rows of `to` are
// queries and rows of x keys; vice versa if not kQueries.
template <typename T, bool kQueries>
void sums(const TensorView& maps, const TensorView& x, const TensorView& to,
          double scale, const WindowLayout& layout,
          const HeadNeighbours& heads) {
  using A = Accumulator<T>;
  const std::int64_t d = to.dim(1) / layout.cells.heads;
  std::vector<A> total(static_cast<std::size_t>(to.numel()));
  for_each_cell(layout, heads, [&](const Cell& cell) {
    const A weight = A(maps.as<const T>()[cell.at]);
    const T* from = x.as<const T>() + (kQueries ? cell.key : cell.query) * d;
    A* sum = total.data() + (kQueries ? cell.query : cell.key) * d;
    for (std::int64_t e = 0; e < d; ++e) sum[e] += weight * A(from[e]);
  });
  std::transform(total.begin(), total.end(), to.as<T>(),
                 [&](A sum) { return T(A(scale) * sum); });
}

// Calls fn(row) with the elements of each query and head that has any.
template <typename Fn>
void for_each_window_row(const WindowLayout& layout, Fn&& fn) {
  std::vector<std::int64_t> row;
  std::int64_t query = -1;
  for_each_cell(layout, layout.keys(), [&](const Cell& cell) {
    if (cell.query != query && !row.empty()) {
      fn(row);
      row.clear();
    }
    query = cell.query;
    row.push_back(cell.at);
  });
  if (!row.empty()) fn(row);
}

template <typename T>
void softmax_of(const WindowSoftmax::Args& args) {
  using A = Accumulator<T>;
  const T* x = args.x.as<const T>();
  T* y = args.y.as<T>();
  clear<T>(args.y);
  for_each_window_row(args.layout, [&](const std::vector<std::int64_t>& row) {
    A largest = -std::numeric_limits<A>::infinity();
    for (const std::int64_t at : row) {
      largest = std::max(largest, A(args.scale) * A(x[at]));
    }
    A total = 0;  // a NaN or +inf makes the total and the row NaN
    for (const std::int64_t at : row) {
      total += std::exp(A(args.scale) * A(x[at]) - largest);
    }
    for (const std::int64_t at : row) {
      y[at] = T(std::exp(A(args.scale) * A(x[at]) - largest) / total);
    }
  });
}

// See kernels/ref/softmax.cpp for the derivation.
template <typename T>
void softmax_backward_of(const WindowSoftmaxBackward::Args& args) {
  using A = Accumulator<T>;
  const T* dy = args.dy.as<const T>();
  const T* y = args.y.as<const T>();
  T* dx = args.dx.as<T>();
  clear<T>(args.dx);
  for_each_window_row(args.layout, [&](const std::vector<std::int64_t>& row) {
    A dot = 0;
    for (const std::int64_t at : row) dot += A(dy[at]) * A(y[at]);
    for (const std::int64_t at : row) {
      dx[at] = T(A(args.scale) * A(y[at]) * (A(dy[at]) - dot));
    }
  });
}

// Calls fn(cell, place) for each cell: `place` is its element of the padded
// array.
template <typename Maps, typename Fn>
void for_each_window_place(const Maps& maps, Fn&& fn) {
  const MapLayout& cells = maps.layout.cells;
  const std::int64_t columns = maps.dense.dim(3) / maps.layout.window.heads;
  const auto column = [&](const TensorView& given, const Cell& cell,
                          std::int64_t i) {
    const std::int64_t token = cells.q_offsets[cell.b] + i;
    return given.defined() ? given.template as<const std::int64_t>()[token] : i;
  };
  for_each_cell(maps.layout, maps.layout.keys(), [&](const Cell& cell) {
    const std::int64_t row =
        (cell.b * cells.heads + cell.h) * maps.dense.dim(2) +
        column(maps.q_columns, cell, cell.i);
    fn(cell.at, row * maps.dense.dim(3) + cell.a * columns +
                    column(maps.k_columns, cell, cell.j));
  });
}

template <typename T>
void window_scores_of(const WindowScores::Args& args) {
  products<T>(args.q, args.k, args.scores, args.scale, args.layout,
              args.layout.keys());
}

template <typename T>
void window_scores_backward_of(const WindowScoresBackward::Args& args) {
  const HeadNeighbours heads = args.layout.keys();
  sums<T, true>(args.dscores, args.k, args.dq, args.scale, args.layout, heads);
  sums<T, false>(args.dscores, args.q, args.dk, args.scale, args.layout, heads);
}

template <typename T>
void window_context_of(const WindowContext::Args& args) {
  sums<T, true>(args.p, args.v, args.y, 1.0, args.layout, args.layout.values());
}

template <typename T>
void window_context_backward_of(const WindowContextBackward::Args& args) {
  const HeadNeighbours heads = args.layout.values();
  products<T>(args.dy, args.v, args.dp, 1.0, args.layout, heads);
  sums<T, false>(args.p, args.dy, args.dv, 1.0, args.layout, heads);
}

template <typename T>
void unpack_windows_of(const UnpackWindows::Args& maps) {
  clear<T>(maps.dense);
  for_each_window_place(maps, [&](std::int64_t cell, std::int64_t place) {
    maps.dense.as<T>()[place] = maps.flat.as<const T>()[cell];
  });
}

template <typename T>
void pack_windows_of(const PackWindows::Args& maps) {
  clear<T>(maps.flat);
  for_each_window_place(maps, [&](std::int64_t cell, std::int64_t place) {
    maps.flat.as<T>()[cell] = maps.dense.as<const T>()[place];
  });
}

}  // namespace

EA_RUN_REF(WindowScores, window_scores_of, q)
EA_RUN_REF(WindowScoresBackward, window_scores_backward_of, q)
EA_RUN_REF(WindowSoftmax, softmax_of, x)
EA_RUN_REF(WindowSoftmaxBackward, softmax_backward_of, y)
EA_RUN_REF(WindowContext, window_context_of, p)
EA_RUN_REF(WindowContextBackward, window_context_backward_of, p)
EA_RUN_REF(UnpackWindows, unpack_windows_of, dense)
EA_RUN_REF(PackWindows, pack_windows_of, flat)

}  // namespace ea::ref
