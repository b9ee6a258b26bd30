// Runs Adam with the kernel of rectified Adam, without rectification.
#include "optim/adam.h"

#include <cmath>

#include "kernels/registry.h"

namespace ea {

// With s = sqrt(1 - b2^t), the root of the second moment's correction,
//   m / (sqrt(v) / s + eps) = m s / (sqrt(v) + s eps):
// this is RAdam's step with r = 1 and eps multiplied by s.
void PlainAdamOptimizer::update(const std::vector<AdamWTensor>& tensors,
                                double grad_scale, const TensorView& scale,
                                std::int64_t step) {
  const double root =
      std::sqrt(1.0 - std::pow(beta2_, static_cast<double>(step)));
  kernels::run<RAdam>({&tensors, beta1_, beta2_, eps_ * root, grad_scale, step,
                       /*rectification=*/1.0, /*decoupled=*/false, scale});
}

}  // namespace ea
