// Convolution of packed attention maps, with heads as channels.
#pragma once

#include "autograd/var.h"
#include "kernels/map_conv.h"
#include "ops/packing.h"

namespace ea {

// weight [heads, heads, k, k] with k odd; bias [heads]. Zero padding at the
// border of each sequence's own map (kernels/map_conv.h). `shift` moves the
// result.
Var map_conv(const Var& x, const Var& weight, const Var& bias,
             const PackingPtr& packing, const MapShift& shift = {});

// Returns 0 in the cells of heads that a window leaves out, and 1 in the
// others, in the shape of the maps; undefined if all heads exist. A convolution
// mixes cells of all heads.
Var head_mask(const Var& maps, const PackingPtr& packing);

// Returns maps times the mask of head_mask(), with 0 in missing cells.
Var masked_heads(const Var& maps, const Var& mask);

// Throws ShapeError unless the weight fits the heads and k is odd, and
// DTypeError unless weight and bias have the dtype of the maps.
void check_map_weight(const char* op, const Var& weight, const Var& bias,
                      std::int64_t heads, DType maps);

// Throws ConfigError unless the shift goes down and right.
void check_shift(const char* op, const MapShift& shift);
// Returns the checked shift, limited to the size of the largest map.
MapShift checked_shift(const char* op, const MapShift& shift,
                       const PackingPtr& packing);

}  // namespace ea
