// Updates all parameters in one call of the kernel.
#include "optim/sgd.h"

#include "kernels/registry.h"
#include "runtime/check.h"

namespace ea {

namespace {

std::vector<const char*> moments_with(double momentum) {
  if (momentum == 0.0) return {};
  return {"momentum_buffer"};
}

}  // namespace

SGDOptimizer::SGDOptimizer(std::vector<Var> params, double momentum,
                           bool nesterov, bool decoupled)
    : MomentOptimizer("sgd", moments_with(momentum), std::move(params)),
      momentum_(momentum),
      nesterov_(nesterov),
      decoupled_(decoupled) {
  EA_CHECK_AS(ConfigError, momentum >= 0 && momentum < 1, name(),
              "momentum {} is outside [0, 1)", momentum);
  EA_CHECK_AS(ConfigError, !nesterov || momentum > 0, name(),
              "nesterov needs a momentum, which is 0");
}

void SGDOptimizer::update(const std::vector<AdamWTensor>& tensors,
                          double grad_scale, const TensorView& scale,
                          std::int64_t /*step*/) {
  kernels::run<SGD>(
      {&tensors, momentum_, nesterov_, decoupled_, grad_scale, scale});
}

}  // namespace ea
