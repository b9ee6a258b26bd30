// Weights of convolutions as one matrix for each tap, in the accumulator's
// type, so that the innermost loops are dense.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor_view.h"

namespace ea::ref {

// Calls fn(i, matrix, o, c) for each element i of a weight [out, in / groups,
// taps...]: output o and input c of a group, in the matrix of [group, tap].
template <typename Fn>
void for_each_weight(const TensorView& weight, std::int64_t groups,
                     const Fn& fn) {
  const std::int64_t out = weight.dim(0) / groups, in = weight.dim(1);
  std::int64_t taps = 1, i = 0;
  for (int axis = 2; axis < weight.shape.rank(); ++axis) {
    taps *= weight.dim(axis);
  }
  for (std::int64_t row = 0; row < weight.dim(0); ++row) {
    for (std::int64_t c = 0; c < in; ++c) {
      for (std::int64_t tap = 0; tap < taps; ++tap, ++i) {
        fn(i, row / out * taps + tap, row % out, c);
      }
    }
  }
}

// Returns the weight as [groups, taps, in, out] if `in_rows`, else as [groups,
// taps, out, in]; in and out count the channels of one group.
template <typename T>
std::vector<Accumulator<T>> by_taps(const TensorView& weight,
                                    std::int64_t groups, bool in_rows) {
  const std::int64_t out = weight.dim(0) / groups, in = weight.dim(1);
  std::vector<Accumulator<T>> all(static_cast<std::size_t>(weight.numel()));
  for_each_weight(weight, groups, [&](auto i, auto matrix, auto o, auto c) {
    const std::int64_t at = in_rows ? c * out + o : o * in + c;
    all[static_cast<std::size_t>(matrix * in * out + at)] =
        Accumulator<T>(weight.as<T>()[i]);
  });
  return all;
}

// Writes [groups, taps, out, in] to a weight.
template <typename T>
void write_taps(const std::vector<Accumulator<T>>& from,
                const TensorView& weight, std::int64_t groups) {
  const std::int64_t out = weight.dim(0) / groups, in = weight.dim(1);
  for_each_weight(weight, groups, [&](auto i, auto matrix, auto o, auto c) {
    const std::int64_t at = (matrix * out + o) * in + c;
    weight.as<T>()[i] = T(from[static_cast<std::size_t>(at)]);
  });
}

// sums[i] += sum_r x[r] matrix[r, i]
template <typename T, typename A>
void add_product(const T* x, const A* matrix, std::int64_t rows,
                 std::int64_t columns, A* sums) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const A value = A(x[r]);
    for (std::int64_t i = 0; i < columns; ++i) {
      sums[i] += value * matrix[r * columns + i];
    }
  }
}

}  // namespace ea::ref
