// Positions that are computed, not learned.
#pragma once

#include "autograd/var.h"
#include "ops/packing.h"

namespace ea {

// PE(t, 2 i) = sin(t / 10000^(2 i / width)), PE(t, 2 i + 1) = cos of the same
// (Vaswani et al., NeurIPS 2017, Section 3.5).
class SinusoidalPositions {
 public:
  SinusoidalPositions(std::int64_t width, DType dtype)
      : width_(width), dtype_(dtype) {}

  // [tokens, width] for the query tokens of packed sequences, counted from 0
  // in each.
  Var operator()(const Packing& packing, Device device) const;
  // [1, width]: position `t`.
  Var at(std::int64_t t, Device device) const;

 private:
  const Tensor& table(std::int64_t rows, Device device) const;

  std::int64_t width_;
  DType dtype_;
  mutable Tensor table_;  // rows 0 .. n - 1, as many as were asked for
};

}  // namespace ea
