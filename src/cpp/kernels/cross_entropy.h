// Contract: cross entropy over classes.
#pragma once

#include <cstdint>

#include "tensor/tensor_view.h"

namespace ea {

// With e = label_smoothing and N the number of rows whose label is not
// ignore_index:
// loss = 1/N sum_rows (1 - e) (lse - x[label]) + e (lse - mean_c x[c]),
// lse = log sum_c exp x[c]. logits: contiguous [n, classes]; labels: int64 [n],
// in range (checked by the op); lse [n] and loss []: float32 (float64 for
// float64). N = 0 gives loss NaN, as in PyTorch.
struct CrossEntropyForward {
  static constexpr const char* name = "cross_entropy_forward";
  struct Args {
    TensorView logits, labels;
    Output lse, loss;
    double label_smoothing;
    std::int64_t ignore_index;
  };
};

// dlogits = dloss / N (exp(x - lse) - (1 - e) [c = label] - e / classes), 0 in
// ignored rows. dloss is 0-d.
struct CrossEntropyBackward {
  static constexpr const char* name = "cross_entropy_backward";
  struct Args {
    TensorView dloss, logits, labels, lse;
    Output dlogits;
    double label_smoothing;
    std::int64_t ignore_index;
  };
};

}  // namespace ea
