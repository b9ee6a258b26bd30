// Rectified Adam over groups of parameters (Liu et al., ICLR 2020).
#pragma once

#include "optim/moments.h"

namespace ea {

class RAdamOptimizer : public AdamOptimizer {
 public:
  // decoupled: weight decay shrinks the parameters as in AdamW, instead of
  // being added to their gradients.
  RAdamOptimizer(std::vector<Var> params, double beta1, double beta2,
                 double eps, bool decoupled)
      : AdamOptimizer("radam", std::move(params), beta1, beta2, eps),
        decoupled_(decoupled) {}

 private:
  void update(const std::vector<AdamWTensor>& tensors, double grad_scale,
              const TensorView& scale, std::int64_t step) override;

  bool decoupled_;
};

}  // namespace ea
