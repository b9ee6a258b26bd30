// Gradient descent with momentum over groups of parameters.
#pragma once

#include "optim/moments.h"

namespace ea {

class SGDOptimizer : public MomentOptimizer {
 public:
  // decoupled: as in RAdam. Throws ConfigError for a momentum outside [0, 1),
  // and for `nesterov` without momentum.
  SGDOptimizer(std::vector<Var> params, double momentum, bool nesterov,
               bool decoupled);

 private:
  void update(const std::vector<AdamWTensor>& tensors, double grad_scale,
              const TensorView& scale, std::int64_t step) override;

  double momentum_;
  bool nesterov_, decoupled_;
};

}  // namespace ea
