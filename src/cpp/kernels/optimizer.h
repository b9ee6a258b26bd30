// Contract: one optimizer step over many tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor_view.h"

namespace ea {

// One parameter and its state, for AdamW and for RAdam. For bfloat16 parameters
// `master` is the float32 value that is updated and then rounded into `param`;
// otherwise undefined.
// exp_avg and exp_avg_sq: float32 (float64 for float64 parameters). With
// `rows`, int64 [k] and increasing, param is [n, width] and grad [k, width]: it
// has the rows of that number, and all others are zero (but are updated).
struct AdamWTensor {
  TensorView param, grad, exp_avg, exp_avg_sq;
  TensorView master;  // optional
  double lr, weight_decay;
  TensorView rows = {};     // optional
  std::int64_t number = 0;  // of its row among the numbers of the step
};

// Adam with decoupled weight decay (Loshchilov and Hutter, ICLR 2019, Alg. 2):
// x -= lr wd x; m = m + (1 - b1)(g - m); v = b2 v + (1 - b2) g^2;
// x -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps), in this order.
// g = grad_scale * scale * grad, scale being one float64 number beside the
// tensors, 1 where it is left out; where it is not finite, nothing changes.
//
// `numbers`, float32 [n + 1, 3] beside the tensors, stands for lr, weight_decay
// and step (and RAdam's r) where it is given, and is read when the kernel runs:
// row i holds shrink, decay and rate of the tensors whose `number` is i, row n
// sqrt(1 - b2^t), 1 where r > 0 (else 0), and 0; kernels/optimizer_numbers.h
// has the formulas.
struct AdamW {
  static constexpr const char* name = "adamw";
  struct Args {
    const std::vector<AdamWTensor>* tensors;
    double beta1, beta2, eps;
    double grad_scale;
    std::int64_t step;        // t, from 1
    TensorView scale = {};    // optional
    TensorView numbers = {};  // optional
  };
};

// Rectified Adam (Liu et al., ICLR 2020, Alg. 2). g and the moments as above,
// but weight decay is added to the gradient, g += wd x, unless `decoupled`
// (then x -= lr wd x first). Where the variance is known well enough, r > 0:
// x -= lr / (1 - b1^t) m r sqrt(1 - b2^t) / (sqrt(v) + eps);
// with r = 0, in the first steps: x -= lr / (1 - b1^t) m.
struct RAdam {
  static constexpr const char* name = "radam";
  struct Args {
    const std::vector<AdamWTensor>* tensors;
    double beta1, beta2, eps;
    double grad_scale;
    std::int64_t step;     // t, from 1
    double rectification;  // r
    bool decoupled;
    TensorView scale = {};    // optional, as above
    TensorView numbers = {};  // optional, as above
  };
};

}  // namespace ea
