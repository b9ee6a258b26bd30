// Reference for products by distance on maps, cell by cell.
#include <algorithm>
#include <vector>

#include "kernels/ref/map_cells.h"
#include "kernels/ref/run.h"
#include "kernels/ref/wide.h"
#include "kernels/relative_cells.h"

namespace ea::ref {

namespace {

// Calls fn(cell, place) for each cell of the flat maps, in order: `place` is
// the element of [total queries * heads, width] for the cell's distance.
template <typename Fn>
void for_each_distance(const MapLayout& layout, std::int64_t width, Fn&& fn) {
  const std::int64_t furthest = width / 2;
  for_each_map_cell(layout, [&](const MapCell& cell) {
    fn(cell.at, cell.query * width + furthest +
                    std::clamp(cell.j - cell.i, -furthest, furthest));
  });
}

template <typename T>
void relative_cells_of(const RelativeCells::Args& args) {
  const T* x = args.x.as<T>();
  T* y = args.y.as<T>();
  for_each_distance(
      args.layout, args.x.dim(1),
      [&](std::int64_t cell, std::int64_t place) { y[cell] = x[place]; });
}

// relative_cells() is linear with one 1 per cell, so its transpose adds each
// cell to the element that it reads.
template <typename T>
void relative_sums_of(const RelativeSums::Args& args) {
  using A = Accumulator<T>;
  const T* x = args.x.as<T>();
  std::vector<A> total(static_cast<std::size_t>(args.y.numel()));
  for_each_distance(args.layout, args.y.dim(1),
                    [&](std::int64_t cell, std::int64_t place) {
                      total[static_cast<std::size_t>(place)] += A(x[cell]);
                    });
  write_wide<T>(total, args.y);
}

}  // namespace

EA_RUN_REF(RelativeCells, relative_cells_of, y)
EA_RUN_REF(RelativeSums, relative_sums_of, y)

}  // namespace ea::ref
