// Copies between tensors and vectors in the accumulator's type.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor_view.h"

namespace ea::ref {

// Returns elements [begin, begin + count) of a flat tensor in the accumulator's
// type.
template <typename T>
std::vector<Accumulator<T>> read_wide(const TensorView& t, std::int64_t begin,
                                      std::int64_t count) {
  std::vector<Accumulator<T>> out(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = Accumulator<T>(t.as<T>()[begin + i]);
  }
  return out;
}

// Rounds to the elements of a flat tensor from `begin` on.
template <typename T>
void write_wide(const std::vector<Accumulator<T>>& from, const TensorView& t,
                std::int64_t begin = 0) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    t.as<T>()[begin + static_cast<std::int64_t>(i)] = T(from[i]);
  }
}

}  // namespace ea::ref
