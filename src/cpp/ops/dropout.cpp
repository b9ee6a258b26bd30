// Dropout without a stored mask: the backward draws the same bits again.
#include "ops/dropout.h"

#include "autograd/node.h"
#include "kernels/dropout.h"
#include "kernels/registry.h"
#include "runtime/check.h"

namespace ea {

namespace {

void check_rate(double p) {
  EA_CHECK_AS(ConfigError, p >= 0.0 && p < 1.0, "dropout",
              "probability {} is outside [0, 1)", p);
}

}  // namespace

DropoutSite dropout_rate(double p, bool training) {
  check_rate(p);
  return {training ? p : 0.0, 0};
}

Var dropout(const Var& x, DropoutSite at) {
  const double p = at.p;
  check_rate(p);
  if (p == 0.0) return x;
  const RandomState stream = next_random_stream(at.site);
  const Tensor y = empty_like(x.data());
  kernels::run<Dropout>(
      {contiguous(x.data()), y, p, stream.seed, stream.offset});
  return record(
      "dropout", y, {x}, {}, [p, stream](const Node&, const Tensor& dy) {
        const Tensor dx = empty_like(dy);
        kernels::run<Dropout>({dy, dx, p, stream.seed, stream.offset});
        return Node::Gradients{dx};
      });
}

}  // namespace ea
