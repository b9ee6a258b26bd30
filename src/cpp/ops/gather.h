// Rows by index: embedding tables, packing, padding.
#pragma once

#include <string_view>

#include "autograd/var.h"
#include "ops/extent.h"

namespace ea {

// y[i] = x[index[i]] along axis 0; index is int64 of any shape, and -1 gives
// zeros. Throws an InputError that names the position if an index is not below
// x.dim(0).
Var gather_rows(const Var& x, const Tensor& index);
// y[o, j, i] = x[o, index[o, j, i], i] of x as [outer, n, inner]; index is
// int64 of any shape with outer as its outer extent, and y has its shape.
Var gather_along(const Var& x, const Extent& e, const Tensor& index);
// gather_rows() for an embedding table: ids must not be negative. Error texts
// name `what` ("input_ids") and the size of the table. Row `padding_id`, if not
// negative, gets no gradient.
Var embedding(const Var& weight, const Tensor& ids,
              std::string_view what = "ids", std::int64_t padding_id = -1);

}  // namespace ea
