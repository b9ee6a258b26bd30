// Contract: cross entropy over classes.
#pragma once

#include <cstdint>

#include "tensor/tensor_view.h"

namespace ea {

// With e = label_smoothing and N the number of rows whose label is not
// ignore_index:
// loss = 1/N sum_rows l - (1 - e) u[label] - e mean_c u[c], where u = x - m, m
// is the row's largest logit and l = log sum_c exp u[c]. logits: contiguous
// [n, classes]; labels: int64 [n], in range (checked by the op); loss [] and
// sums [n, 2], (m, l) of each row: float32 (float64 for float64). m and l stay
// apart, since m + l, rounded, would lose l. N = 0 gives loss NaN, as in
// PyTorch.
struct CrossEntropyForward {
  static constexpr const char* name = "cross_entropy_forward";
  struct Args {
    TensorView logits, labels;
    Output sums, loss;
    double label_smoothing;
    std::int64_t ignore_index;
  };
};

// dlogits = dloss / N (exp(u - l) - (1 - e) [c = label] - e / classes), 0 in
// ignored rows. dloss is 0-d.
struct CrossEntropyBackward {
  static constexpr const char* name = "cross_entropy_backward";
  struct Args {
    TensorView dloss, logits, labels, sums;
    Output dlogits;
    double label_smoothing;
    std::int64_t ignore_index;
  };
};

}  // namespace ea
