// Partition of a list of tensors into pieces of a fixed size, one per job.
#pragma once

#include "kernels/cpu/simd/jobs-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

struct Piece {
  std::int64_t tensor, begin, end;
};

EA_INLINE std::int64_t piece_count(std::int64_t numel) {
  return ceil_div(numel, kGrain);
}

// Writes the pieces of a tensor and returns the address after the last.
EA_INLINE Piece* cut(std::int64_t tensor, std::int64_t numel, Piece* out) {
  for (std::int64_t begin = 0; begin < numel; begin += kGrain) {
    const std::int64_t end = begin + kGrain < numel ? begin + kGrain : numel;
    *out++ = {tensor, begin, end};
  }
  return out;
}

}  // namespace
}  // namespace ea::simd::EA_TARGET
