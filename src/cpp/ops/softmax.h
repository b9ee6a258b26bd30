// Softmax over the last axis, and over the keys of packed attention maps.
#pragma once

#include "autograd/var.h"
#include "ops/packing.h"

namespace ea {

// Softmax over the last axis of x.
Var softmax(const Var& x);
// softmax(scale x) over existing keys. key_mask replaces the mask of the
// packing: uint8 [total keys], or undefined.
Var map_softmax(const Var& x, const PackingPtr& packing, double scale = 1.0,
                const Tensor& key_mask = {});

}  // namespace ea
