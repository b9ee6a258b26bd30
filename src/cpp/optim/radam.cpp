// Computes the rectification of a step and updates all parameters in one call
// of the kernel.
#include "optim/radam.h"

#include <cmath>

#include "kernels/registry.h"

namespace ea {

namespace {

// The second moment after t steps varies like the mean of about rho squares:
//   rho_inf = 2 / (1 - b2) - 1,  rho = rho_inf - 2 t b2^t / (1 - b2^t).
// The variance of its root is finite for rho > 4, and the factor r corrects for
// it; the step is rectified for rho > 5 (Liu et al., section 4.1):
//   r^2 = (rho - 4)(rho - 2) rho_inf / ((rho_inf - 4)(rho_inf - 2) rho).
double rectification(double beta2, std::int64_t step) {
  const double power = std::pow(beta2, static_cast<double>(step));
  const double longest = 2.0 / (1.0 - beta2) - 1.0;
  const double length =
      longest - 2.0 * static_cast<double>(step) * power / (1.0 - power);
  if (!(length > 5.0)) return 0.0;
  return std::sqrt((length - 4.0) * (length - 2.0) * longest /
                   ((longest - 4.0) * (longest - 2.0) * length));
}

}  // namespace

void RAdamOptimizer::update(const std::vector<AdamWTensor>& tensors,
                            double grad_scale, const TensorView& scale,
                            std::int64_t step) {
  kernels::run<RAdam>({&tensors, beta1_, beta2_, eps_, grad_scale, step,
                       rectification(beta2_, step), decoupled_, scale});
}

}  // namespace ea
