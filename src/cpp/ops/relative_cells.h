// Products of queries by distance, as attention maps (Shaw et al., 2018).
#pragma once

#include "autograd/var.h"
#include "ops/packing.h"

namespace ea {

// Flat maps y[b, h, i, j] = x[(q_offsets[b] + i) heads + h, D + clip(j - i, -D,
// D)]; x [total queries * heads, 2 D + 1]: with the products of each query's
// heads and the vectors of the distances -D .. D, the logits of relative keys.
Var relative_cells(const Var& x, const PackingPtr& packing);

// The transpose: [total queries * heads, 2 D + 1], the sum of the maps over the
// keys at each clipped distance, D = max_distance. With probabilities, what
// each query's heads give to the vectors of relative values.
Var relative_sums(const Var& maps, const PackingPtr& packing,
                  std::int64_t max_distance);

}  // namespace ea
