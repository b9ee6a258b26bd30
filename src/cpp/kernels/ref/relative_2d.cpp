// Reference for products by distance along two axes, cell by cell.
#include "kernels/relative_2d.h"

#include <algorithm>
#include <vector>

#include "kernels/ref/run.h"
#include "runtime/check.h"

namespace ea::ref {

namespace {

// Calls fn(cell, element of rows, element of columns) for each cell of flat
// maps.
template <typename Fn>
void for_each_offset(const MapLayout& layout, const TensorView& rows,
                     const TensorView& columns, Fn&& fn) {
  const std::int64_t reach = rows.dim(1) / 2, width = columns.dim(1) / 2 + 1;
  std::int64_t cell = 0;
  for (std::int64_t b = 0; b < layout.sequences; ++b) {
    for (std::int64_t h = 0; h < layout.heads; ++h) {
      for (std::int64_t i = 0; i < layout.n_q(b); ++i) {
        const std::int64_t row = (layout.q_offsets[b] + i) * layout.heads + h;
        for (std::int64_t j = 0; j < layout.n_k(b); ++j) {
          const std::int64_t down =
              std::clamp(j / width - i / width, -reach, reach);
          fn(cell++, row * rows.dim(1) + reach + down,
             row * columns.dim(1) + width - 1 + j % width - i % width);
        }
      }
    }
  }
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
  std::transform(rows.begin(), rows.end(), args.rows.as<T>(),
                 [](A sum) { return T(sum); });
  std::transform(columns.begin(), columns.end(), args.columns.as<T>(),
                 [](A sum) { return T(sum); });
}

}  // namespace

EA_RUN_REF(Relative2dCells, relative_2d_cells_of, y)
EA_RUN_REF(Relative2dSums, relative_2d_sums_of, x)

}  // namespace ea::ref
