// AdamW over groups of parameters.
#pragma once

#include "optim/moments.h"

namespace ea {

class AdamWOptimizer : public AdamOptimizer {
 public:
  AdamWOptimizer(std::vector<Var> params, double beta1, double beta2,
                 double eps)
      : AdamOptimizer("adamw", std::move(params), beta1, beta2, eps) {}

 private:
  void update(const std::vector<AdamWTensor>& tensors, double grad_scale,
              const TensorView& scale, std::int64_t step) override;
};

}  // namespace ea
