// A vector for each query and key: what additive scores are made of.
#pragma once

#include "autograd/var.h"
#include "ops/packing.h"

namespace ea {

// y[b, h, i, j, :] = u[q_offsets[b] + i, h, :] + v[k_offsets[b] + j, h, :],
// flat [cells * c]: the cells in the order of the maps, c values each. u [total
// queries, heads c], v [total keys, heads c].
Var pair_sum(const Var& u, const Var& v, const PackingPtr& packing);

}  // namespace ea
