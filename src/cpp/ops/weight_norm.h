// Weight normalisation (Salimans and Kingma, 2016).
#pragma once

#include "autograd/var.h"

namespace ea {

// w = g v / |v|, with the norm over all axes but the first: v [out, ...], w of
// the same shape. g has one element per row, [out] or [out, 1, ..., 1]. A row
// of zeros gives NaN.
Var weight_norm(const Var& v, const Var& g);

}  // namespace ea
