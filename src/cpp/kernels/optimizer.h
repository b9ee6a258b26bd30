// Contract: one optimizer step over many tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor_view.h"

namespace ea {

// One parameter and its state, for AdamW, RAdam and SGD. For bfloat16
// parameters `master` is the float32 value that is updated and then rounded
// into `param`; otherwise undefined.
// exp_avg and exp_avg_sq: float32 (float64 for float64 parameters). SGD has the
// first alone, and with momentum 0 neither. With `rows`, int64 [k] and
// increasing, param is [n, width] and grad [k, width]: it has the rows of that
// number, and all others are zero (but are updated).
struct AdamWTensor {
  InOut param;
  TensorView grad;
  InOut exp_avg, exp_avg_sq;
  InOut master;  // optional
  double lr, weight_decay;
  TensorView rows = {};  // optional
};

// Adam with decoupled weight decay (Loshchilov and Hutter, ICLR 2019, Alg. 2):
// x -= lr wd x; m = m + (1 - b1)(g - m); v = b2 v + (1 - b2) g^2;
// x -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps), in this order.
// g = grad_scale * scale * grad, scale being one float64 number beside the
// tensors, 1 where it is left out; where it is not finite, nothing changes.
struct AdamW {
  static constexpr const char* name = "adamw";
  struct Args {
    const std::vector<AdamWTensor>* tensors;
    double beta1, beta2, eps;
    double grad_scale;
    std::int64_t step;  // t, from 1
    Number scale = {};  // optional
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
    Number scale = {};  // optional, as above
  };
};

// Gradient descent with momentum mu (Sutskever et al., ICML 2013). g as above,
// g += wd x unless `decoupled` (then x -= lr wd x first); m = mu m + g with m
// = 0 before the first step; x -= lr d with d = m, or, `nesterov`, d = g + mu
// m. With mu = 0, d = g, and there is no m.
struct SGD {
  static constexpr const char* name = "sgd";
  struct Args {
    const std::vector<AdamWTensor>* tensors;
    double momentum;  // mu
    bool nesterov, decoupled;
    double grad_scale;
    Number scale = {};  // optional, as above
  };
};

}  // namespace ea
