// Scaled dot-product attention in two ops, so that the maps between them can be
// changed.
#pragma once

#include "autograd/var.h"
#include "ops/packing.h"

namespace ea {

// Returns flat maps S = scale q k^T; q [total queries, heads d], k [total keys,
// heads d].
Var attention_scores(const Var& q, const Var& k, const PackingPtr& packing,
                     double scale);
// Returns P v, [total queries, heads d].
Var attention_context(const Var& p, const Var& v, const PackingPtr& packing);

}  // namespace ea
