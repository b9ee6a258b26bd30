// Contract: one optimizer step over many tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor_view.h"

namespace ea {

// One parameter and its state, for AdamW, RAdam and SGD.
// master: for bfloat16 parameters, the float32 value that is updated and then
// rounded into `param`; otherwise undefined.
// exp_avg, exp_avg_sq: float32 (float64 for float64 parameters). SGD has only
// exp_avg, and neither if momentum is 0.
// rows, int64 [k], increasing: if given, param is [n, width] and grad [k,
// width] holds the gradients of these rows. All other rows have gradient zero
// (but are updated).
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
// g = grad_scale * scale * grad. `scale` is one float64 number on the device of
// the tensors, 1 if omitted; if it is not finite, nothing changes.
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

// Rectified Adam (Liu et al., ICLR 2020, Alg. 2). g and the moments are as in
// AdamW, but weight decay is added to the gradient, g += wd x, unless
// `decoupled` (then x -= lr wd x first). If the variance is known well enough,
// r > 0:
// x -= lr / (1 - b1^t) m r sqrt(1 - b2^t) / (sqrt(v) + eps).
// In the first steps, r = 0: x -= lr / (1 - b1^t) m.
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

// Gradient descent with momentum mu (Sutskever et al., ICML 2013). g is as in
// AdamW, with g += wd x unless `decoupled` (then x -= lr wd x first).
// m = mu m + g, with m = 0 before the first step. x -= lr d, where d = m, or
// d = g + mu m with `nesterov`. If mu = 0, d = g and there is no m.
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
