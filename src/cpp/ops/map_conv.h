// Convolution of packed attention maps, heads being channels.
#pragma once

#include "autograd/var.h"
#include "kernels/map_conv.h"
#include "ops/packing.h"

namespace ea {

// weight [heads, heads, k, k], k odd; bias [heads]; zero padding at the border
// of each sequence's own map (kernels/map_conv.h); the result is moved by
// `shift`.
Var map_conv(const Var& x, const Var& weight, const Var& bias,
             const PackingPtr& packing, const MapShift& shift = {});

// Throws ShapeError unless the weight fits the heads and k is odd, DTypeError
// unless weight and bias have the maps' type.
void check_map_weight(const char* op, const Var& weight, const Var& bias,
                      std::int64_t heads, DType maps);

// The shift, no further than maps reach. Throws ConfigError unless it goes down
// and right.
MapShift checked_shift(const char* op, const MapShift& shift,
                       const PackingPtr& packing);

}  // namespace ea
