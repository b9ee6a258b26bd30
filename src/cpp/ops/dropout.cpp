// Dropout without a stored mask: the backward draws the same bits again.
#include "ops/dropout.h"

#include "autograd/node.h"
#include "kernels/dropout.h"
#include "kernels/registry.h"
#include "runtime/check.h"
#include "runtime/random.h"

namespace ea {

Var dropout(const Var& x, double p, bool training) {
  EA_CHECK_AS(ConfigError, p >= 0.0 && p < 1.0, "dropout",
              "probability {} is outside [0, 1)", p);
  if (!training || p == 0.0) return x;
  const RandomState stream = next_random_stream();
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
