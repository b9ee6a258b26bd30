// Sinusoidal positions, computed instead of learned.
#pragma once

#include <memory>
#include <mutex>

#include "autograd/var.h"
#include "ops/packing.h"

namespace ea {

// PE(t, 2 i) = sin(t / 10000^(2 i / width)),
// PE(t, 2 i + 1) = cos(t / 10000^(2 i / width))
// (Vaswani et al., NeurIPS 2017, Section 3.5).
class SinusoidalPositions {
 public:
  SinusoidalPositions(std::int64_t width, DType dtype)
      : width_(width), dtype_(dtype) {}

  // Returns [tokens, width] for the query tokens of packed sequences; positions
  // start at 0 in each sequence.
  Var operator()(const Packing& packing, Device device) const;
  // Returns position `t` as [1, width].
  Var at(std::int64_t t, Device device) const;

 private:
  Tensor table(std::int64_t rows, Device device) const;

  std::int64_t width_;
  DType dtype_;
  mutable Tensor table_;  // rows 0 .. n - 1; grows on request
  // Threads may run the same model; behind a pointer, so that models move.
  std::unique_ptr<std::mutex> growing_ = std::make_unique<std::mutex>();
};

}  // namespace ea
