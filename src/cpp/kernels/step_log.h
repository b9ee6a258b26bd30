// Contract: what a training step leaves on its device, so that the host need
// not wait for every step: its loss, and how its gradients are clipped.
#pragma once

#include "tensor/tensor_view.h"

namespace ea {

// total += share * loss: single numbers, the loss of any floating type, the
// total float64.
struct RecordLoss {
  static constexpr const char* name = "record_loss";
  struct Args {
    TensorView loss;
    InOut total;
    double share;
  };
};

// scale = min(1, max_norm / (sqrt(sum_of_squares) + 1e-6)), or 1 where max_norm
// is 0; NaN unless the loss, the sum and `previous`, the scale of the step
// before, are all finite. Single numbers, float64.
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
