// Attention maps from products of queries with distances along the two axes of
// images (Bello et al., 2019).
#pragma once

#include "autograd/var.h"
#include "ops/packing.h"

namespace ea {

// Flat maps
//   y[b, h, i, j] = rows[r, D + clip(j / W - i / W, -D, D)]
//                 + columns[r, W - 1 + j mod W - i mod W],
// with r = (q_offsets[b] + i) heads + h: the tokens of a sequence are the
// pixels of an image of width W, row by row. rows [total queries * heads, 2 D +
// 1], columns [total queries * heads, 2 W - 1].
Var relative_2d(const Var& rows, const Var& columns, const PackingPtr& packing);

}  // namespace ea
