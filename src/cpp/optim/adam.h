// Adam over groups of parameters (Kingma and Ba, ICLR 2015).
#pragma once

#include "optim/moments.h"

namespace ea {

// Weight decay is added to the gradients: an L2 penalty in the loss.
class PlainAdamOptimizer : public AdamOptimizer {
 public:
  PlainAdamOptimizer(std::vector<Var> params, double beta1, double beta2,
                     double eps)
      : AdamOptimizer("adam", std::move(params), beta1, beta2, eps) {}

 private:
  void update(const std::vector<AdamWTensor>& tensors, double grad_scale,
              const TensorView& scale, std::int64_t step) override;
};

}  // namespace ea
