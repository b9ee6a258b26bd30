// A linear function of two arrays; its transpose gives both gradients.
#include "ops/relative_2d.h"

#include "autograd/node.h"
#include "kernels/registry.h"
#include "kernels/relative_2d.h"
#include "runtime/check.h"

namespace ea {

namespace {

void check_products(const char* what, const Var& x, const Packing& packing) {
  const std::int64_t rows = packing.total_queries() * packing.heads();
  EA_CHECK(x.rank() == 2 && x.dim(0) == rows && x.dim(1) % 2 == 1,
           "relative_2d",
           "{} has shape {}, expected ({}, an odd number): a row for each of "
           "{} query tokens and {} heads, a column for each distance",
           what, x.shape(), rows, packing.total_queries(), packing.heads());
}

}  // namespace

Var relative_2d(const Var& rows, const Var& columns,
                const PackingPtr& packing) {
  check_products("rows", rows, *packing);
  check_products("columns", columns, *packing);
  EA_CHECK_AS(DTypeError, rows.dtype() == columns.dtype(), "relative_2d",
              "rows is {}, columns {}: expected one type; use .to(dtype)",
              rows.dtype(), columns.dtype());
  const Tensor y =
      empty({packing->map_elements()}, rows.dtype(), rows.device());
  kernels::run<Relative2dCells>({contiguous(rows.data()),
                                 contiguous(columns.data()), y,
                                 packing->layout()});
  const Shape tall = rows.shape(), wide = columns.shape();
  return record("relative_2d", y, {rows, columns}, {},
                [packing, tall, wide](const Node&, const Tensor& dy) {
                  const Tensor drows = empty(tall, dy.dtype(), dy.device());
                  const Tensor dcolumns = empty(wide, dy.dtype(), dy.device());
                  kernels::run<Relative2dSums>(
                      {contiguous(dy), drows, dcolumns, packing->layout()});
                  return Node::Gradients{drows, dcolumns};
                });
}

}  // namespace ea
