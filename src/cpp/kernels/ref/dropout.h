// One element of reference dropout, for the kernels that drop on the way.
#pragma once

#include "runtime/philox.h"
#include "tensor/tensor_view.h"

namespace ea::ref {

// Element i of a tensor as kernels/dropout.h leaves it: four elements share one
// Philox counter.
template <typename T>
T dropped(T x, std::int64_t i, double p, std::uint64_t seed,
          std::uint64_t stream) {
  using A = Accumulator<T>;
  const Philox4 words = philox(seed, stream, static_cast<std::uint64_t>(i / 4));
  return words.v[i % 4] >= dropout_threshold(p) ? T(A(x) * A(1 / (1 - p)))
                                                : T(A(0));
}

}  // namespace ea::ref
