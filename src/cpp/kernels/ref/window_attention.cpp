// Reference for attention within windows, cell by cell.
#include "kernels/window_attention.h"

#include <algorithm>

#include "kernels/ref/cells.h"
#include "kernels/ref/run.h"

namespace ea::ref {

namespace {

// A cell that exists: query i of head h and key j of neighbour a, in sequence
// b.
struct WindowCell {
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
            fn(WindowCell{at, (first + i) * cells.heads + h,
                          (first + j) * cells.heads + g, b, h, i, a, j});
          }
        }
      }
    }
  }
}

auto window_cells(const WindowLayout& layout, const HeadNeighbours& heads) {
  return [&layout, heads](const auto& fn) { for_each_cell(layout, heads, fn); };
}

template <typename T>
void clear(const TensorView& maps) {
  std::fill_n(maps.as<T>(), maps.numel(), T(0.0f));
}

template <typename T>
void products_of(const WindowProducts::Args& args) {
  clear<T>(args.maps);
  cell_products<T>(
      args.x, args.y, args.maps, args.scale,
      args.x.dim(1) / args.layout.cells.heads,
      window_cells(args.layout, args.layout.neighbours(args.of_values)));
}

template <typename T>
void sums_of(const WindowSums::Args& args) {
  const auto cells =
      window_cells(args.layout, args.layout.neighbours(args.of_values));
  const std::int64_t d = args.to.dim(1) / args.layout.cells.heads;
  if (args.of_queries) {
    weighted_sums<T, true>(args.maps, args.x, args.to, args.scale, d, cells);
  } else {
    weighted_sums<T, false>(args.maps, args.x, args.to, args.scale, d, cells);
  }
}

template <typename T>
void softmax_of(const WindowSoftmax::Args& args) {
  clear<T>(args.y);
  cell_softmax<T>(args.x, args.y, args.scale,
                  window_cells(args.layout, args.layout.keys()));
}

template <typename T>
void softmax_backward_of(const WindowSoftmaxBackward::Args& args) {
  clear<T>(args.dx);
  cell_softmax_backward<T>(args.dy, args.y, args.dx, args.scale,
                           window_cells(args.layout, args.layout.keys()));
}

// Calls fn(cell, place) for each cell: `place` is its element of the padded
// array.
template <typename Maps, typename Fn>
void for_each_window_place(const Maps& maps, Fn&& fn) {
  const MapLayout& cells = maps.layout.cells;
  const std::int64_t columns = maps.dense.dim(3) / maps.layout.window.heads;
  const auto column = [&](const TensorView& given, const WindowCell& cell,
                          std::int64_t i) {
    const std::int64_t token = cells.q_offsets[cell.b] + i;
    return given.defined() ? given.template as<const std::int64_t>()[token] : i;
  };
  for_each_cell(maps.layout, maps.layout.keys(), [&](const WindowCell& cell) {
    const std::int64_t row =
        (cell.b * cells.heads + cell.h) * maps.dense.dim(2) +
        column(maps.q_columns, cell, cell.i);
    fn(cell.at, row * maps.dense.dim(3) + cell.a * columns +
                    column(maps.k_columns, cell, cell.j));
  });
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

EA_RUN_REF(WindowProducts, products_of, x)
EA_RUN_REF(WindowSums, sums_of, maps)
EA_RUN_REF(WindowSoftmax, softmax_of, x)
EA_RUN_REF(WindowSoftmaxBackward, softmax_backward_of, y)
EA_RUN_REF(UnpackWindows, unpack_windows_of, dense)
EA_RUN_REF(PackWindows, pack_windows_of, flat)

}  // namespace ea::ref
