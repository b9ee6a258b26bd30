// Attention maps from products of queries with distances (Shaw et al., 2018).
#pragma once

#include "autograd/var.h"
#include "ops/packing.h"

namespace ea {

// Flat maps y[b, h, i, j] = x[(q_offsets[b] + i) heads + h, D + clip(j - i, -D,
// D)]; x [total queries * heads, 2 D + 1]. If x holds the products of each
// query's heads with the vectors of the distances -D to D, y holds the logits
// of relative keys.
Var relative_cells(const Var& x, const PackingPtr& packing);

// Transpose of relative_cells(): [total queries * heads, 2 D + 1], the sum of
// the maps over the keys at each clipped distance, D = max_distance. For
// probabilities, these sums weight the vectors of relative values.
Var relative_sums(const Var& maps, const PackingPtr& packing,
                  std::int64_t max_distance);

}  // namespace ea
