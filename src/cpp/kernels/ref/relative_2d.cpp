// Reference for products by distance along two axes, cell by cell.
#include "kernels/relative_2d.h"

#include <algorithm>
#include <vector>

#include "kernels/ref/map_cells.h"
#include "kernels/ref/run.h"
#include "kernels/ref/wide.h"
#include "runtime/check.h"

namespace ea::ref {

namespace {

// Calls fn(cell, element of rows, element of columns) for each cell of flat
// maps.
template <typename Fn>
void for_each_offset(const MapLayout& layout, const TensorView& rows,
                     const TensorView& columns, Fn&& fn) {
  const std::int64_t reach = rows.dim(1) / 2, width = columns.dim(1) / 2 + 1;
  for_each_map_cell(layout, [&](const MapCell& cell) {
    const std::int64_t down =
        std::clamp(cell.j / width - cell.i / width, -reach, reach);
    fn(cell.at, cell.query * rows.dim(1) + reach + down,
       cell.query * columns.dim(1) + width - 1 + cell.j % width -
           cell.i % width);
  });
}

template <typename T>
void relative_2d_cells_of(const Relative2dCells::Args& args) {
  using A = Accumulator<T>;
  for_each_offset(
      args.layout, args.rows, args.columns,
      [&](std::int64_t cell, std::int64_t row, std::int64_t column) {
        args.y.as<T>()[cell] =
            T(A(args.rows.as<T>()[row]) + A(args.columns.as<T>()[column]));
      });
}

// relative_2d() adds one element of rows and one of columns, so its transpose
// adds each cell to both.
template <typename T>
void relative_2d_sums_of(const Relative2dSums::Args& args) {
  using A = Accumulator<T>;
  std::vector<A> rows(static_cast<std::size_t>(args.rows.numel()));
  std::vector<A> columns(static_cast<std::size_t>(args.columns.numel()));
  for_each_offset(
      args.layout, args.rows, args.columns,
      [&](std::int64_t cell, std::int64_t row, std::int64_t column) {
        const A value = A(args.x.as<T>()[cell]);
        rows[static_cast<std::size_t>(row)] += value;
        columns[static_cast<std::size_t>(column)] += value;
      });
  write_wide<T>(rows, args.rows);
  write_wide<T>(columns, args.columns);
}

}  // namespace

EA_RUN_REF(Relative2dCells, relative_2d_cells_of, y)
EA_RUN_REF(Relative2dSums, relative_2d_sums_of, x)

}  // namespace ea::ref
