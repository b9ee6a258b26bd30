// Gradient of a table, stored as the gradients of the rows that were used.
#pragma once

#include "tensor/tensor.h"

namespace ea {

// rows[i] is the gradient of row ids[i] of the table; all others are zero. ids
// int64 [k], increasing, on the CPU; rows [k, width] in the table's type and on
// its device.
struct RowGradient {
  Tensor ids, rows;
  bool defined() const { return ids.defined(); }
};

// Sums the rows of dy [m, width] that share an id, in their order; an id of -1
// is skipped. `index` int64 [m], on the CPU.
RowGradient collect_rows(const Tensor& index, const Tensor& dy);
// Returns the sum of two gradients of one table.
RowGradient add_rows(const RowGradient& a, const RowGradient& b);
// dense += rows, in place; dense [n, width] contiguous.
void add_rows_to(const RowGradient& rows, const Tensor& dense);
// Returns the dense gradient of a table of this shape.
Tensor dense_of(const RowGradient& rows, const Shape& shape);

}  // namespace ea
