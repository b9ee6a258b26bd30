// Indices of a map row's statistics and gates in fused attention.
#pragma once

#include "kernels/cuda/map_blocks.cuh"
#include "kernels/fused_attention.h"

namespace ea::cuda {

// Returns the index of row (h, i) in statistics and gates.
EA_HOST_DEVICE inline std::int64_t row_number(const MapBlock& at,
                                              std::int64_t heads,
                                              std::int64_t h, std::int64_t i) {
  return heads * at.first_query + at.line(h, i);
}

// Returns the index of the gate byte of cell j of row (h, i).
__device__ inline std::int64_t gate_of(const MapBlock& at, std::int64_t heads,
                                       std::int64_t h, std::int64_t i,
                                       std::int64_t j) {
  return gate_byte(at.row(h, i), row_number(at, heads, h, i)) + j / 8;
}

}  // namespace ea::cuda
