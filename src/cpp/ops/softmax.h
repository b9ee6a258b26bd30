// Softmax over the last axis, and over the keys of packed attention maps.
#pragma once

#include "autograd/var.h"
#include "ops/packing.h"

namespace ea {

// Over the last axis of x.
Var softmax(const Var& x);
// softmax(scale x) over keys that exist; key_mask: uint8 [total keys] in the
// place of the packing's, or undefined.
Var map_softmax(const Var& x, const PackingPtr& packing, double scale = 1.0,
                const Tensor& key_mask = {});

}  // namespace ea
