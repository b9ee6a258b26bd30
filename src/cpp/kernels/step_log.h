// Contract: results of a training step that stay on its device, so that the
// host need not synchronise in every step: the loss and the clipping factor.
#pragma once

#include "tensor/tensor_view.h"

namespace ea {

// total += share * loss. Both are single numbers: loss of any floating dtype,
// total in float64.
struct RecordLoss {
  static constexpr const char* name = "record_loss";
  struct Args {
    TensorView loss;
    InOut total;
    double share;
  };
};

// scale = min(1, max_norm / (sqrt(sum_of_squares) + 1e-6)), or 1 if max_norm is
// 0; NaN unless the loss, the sum and `previous` (the scale of the previous
// step) are all finite. All are single float64 numbers.
struct StepScale {
  static constexpr const char* name = "step_scale";
  struct Args {
    TensorView loss;
    Number sum_of_squares;
    Number previous;  // optional
    Output scale;
    double max_norm;
  };
};

}  // namespace ea
