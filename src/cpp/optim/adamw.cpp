// Updates all parameters in one call of the kernel.
#include "optim/adamw.h"

#include "kernels/registry.h"

namespace ea {

void AdamWOptimizer::update(const std::vector<AdamWTensor>& tensors,
                            double grad_scale, const TensorView& scale,
                            std::int64_t step) {
  kernels::run<AdamW>(
      {&tensors, beta1_, beta2_, eps_, grad_scale, step, scale});
}

}  // namespace ea
