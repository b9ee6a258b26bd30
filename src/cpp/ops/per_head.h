// Spreads one number per head over the cells of its maps.
#pragma once

#include "autograd/var.h"
#include "ops/packing.h"

namespace ea {

// Flat maps with maps[b, h, i, j] = x[h]; x [heads]. Throws ShapeError.
Var per_head(const Var& x, const PackingPtr& packing);

}  // namespace ea
