// Attention from one new token of each sequence to the rows of a cache.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/evolve.h"
#include "tensor/tensor.h"

namespace ea {

// Inputs of the evolving step, see kernels/cached_attention.h; tensors may be
// undefined. `maps` is written.
struct CachedEvolving {
  EvolveCoefficients c = kVanillaStep;
  double softmax_scale = 1.0;
  MapShift shift = {};
  Tensor previous = {}, weight = {}, bias = {}, maps = {};
  std::vector<std::int64_t> map_rows = {};
  bool carry = false;  // whether to return L
};

struct CachedAttended {
  Tensor context, carry;
};

// Sequence b attends to rows rows[offsets[b]] to rows[offsets[b + 1] - 1] of k
// and v. Records no gradients. Throws ShapeError, DTypeError and InputError.
CachedAttended cached_attention(const Tensor& q, const Tensor& k,
                                const Tensor& v,
                                const std::vector<std::int64_t>& rows,
                                const std::vector<std::int64_t>& offsets,
                                std::int64_t heads, double scale,
                                const CachedEvolving& evolving = {});

}  // namespace ea
