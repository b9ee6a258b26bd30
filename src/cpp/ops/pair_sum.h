// A vector for each pair of query and key, the input of additive scores.
#pragma once

#include "autograd/var.h"
#include "ops/packing.h"

namespace ea {

// y[b, h, i, j, :] = u[q_offsets[b] + i, h, :] + v[k_offsets[b] + j, h, :],
// flat [cells * c]: cells in map order, c values each. u [total queries, heads
// c], v [total keys, heads c].
Var pair_sum(const Var& u, const Var& v, const PackingPtr& packing);

}  // namespace ea
