// Scaled dot-product attention, cut where the maps can be changed in between.
#pragma once

#include "autograd/var.h"
#include "ops/packing.h"

namespace ea {

// Flat maps S = scale q k^T; q [total queries, heads d], k [total keys, heads
// d]
Var attention_scores(const Var& q, const Var& k, const PackingPtr& packing,
                     double scale);
// [total queries, heads d] = P v
Var attention_context(const Var& p, const Var& v, const PackingPtr& packing);

}  // namespace ea
