// Rows by index: embedding tables, packing, padding.
#pragma once

#include <string_view>

#include "autograd/var.h"

namespace ea {

// y[i] = x[index[i]] along axis 0; index int64, any shape; -1 gives zeros.
// Throws InputError naming the place when an index is not below x.dim(0).
Var gather_rows(const Var& x, const Tensor& index);
// The same for a table of embeddings: ids must not be negative; messages speak
// of `what` ("input_ids") and say how large the table is. No gradient reaches
// the row `padding_id`, if it is not negative.
Var embedding(const Var& weight, const Tensor& ids,
              std::string_view what = "ids", std::int64_t padding_id = -1);

}  // namespace ea
