// One element of reference dropout, for kernels with built-in dropout.
#pragma once

#include "runtime/philox.h"
#include "tensor/tensor_view.h"

namespace ea::ref {

// Returns element i after the dropout of kernels/dropout.h: four elements share
// one Philox counter.
template <typename T>
T dropped(T x, std::int64_t i, double p, std::uint64_t seed,
          std::uint64_t stream) {
  using A = Accumulator<T>;
  const Philox4 words = philox(seed, stream, static_cast<std::uint64_t>(i / 4));
  return words.v[i % 4] >= dropout_threshold(p) ? T(A(x) * A(1 / (1 - p)))
                                                : T(A(0));
}

}  // namespace ea::ref
