// What a step's settings come to, in the form that kernels/optimizer.h can hold
// beside the tensors: computed by whoever fills that, and by kernels without.
#pragma once

#include <cmath>

#include "kernels/optimizer.h"

namespace ea {

// A tensor's values are multiplied by `shrink` and its gradient gets `decay`
// times them; then they move by `rate` times the direction.
struct TensorNumbers {
  double shrink, decay, rate;
};

// All that depends on the number of the step.
struct StepNumbers {
  double correction1;       // 1 - b1^t
  double root_correction2;  // sqrt(1 - b2^t)
  double rectification;     // r; 0: the direction is m alone. Of RAdam
  bool decoupled;

  bool rectified() const { return rectification > 0.0; }
  TensorNumbers of(double lr, double weight_decay) const {
    double rate = lr / correction1;
    if (rectified()) rate = rate * rectification * root_correction2;
    return {decoupled ? 1.0 - lr * weight_decay : 1.0,
            decoupled ? 0.0 : weight_decay, rate};
  }
};

inline StepNumbers numbers_of(const AdamW::Args& args) {
  const auto t = static_cast<double>(args.step);
  return {1.0 - std::pow(args.beta1, t),
          std::sqrt(1.0 - std::pow(args.beta2, t)), 0.0, true};
}

inline StepNumbers numbers_of(const RAdam::Args& args) {
  const auto t = static_cast<double>(args.step);
  return {1.0 - std::pow(args.beta1, t),
          std::sqrt(1.0 - std::pow(args.beta2, t)), args.rectification,
          args.decoupled};
}

}  // namespace ea
