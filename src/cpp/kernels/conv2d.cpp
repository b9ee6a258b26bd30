// Checks that all implementations of convolutions share.
#include "kernels/conv2d.h"

#include "runtime/check.h"
#include "tensor/finite.h"

namespace ea {

void check_finite_weight(const TensorView& weight) {
  const std::int64_t i = first_not_finite(weight);
  if (i < 0) return;
  const std::int64_t w = i % weight.dim(3), h = i / weight.dim(3);
  const std::int64_t c = h / weight.dim(2);
  fail<InputError>(
      "conv2d",
      "the weight of shape {} is not finite at [{}, {}, {}, {}]: "
      "expected finite numbers, since a ReLU after it may turn NaN "
      "into 0; load weights that are finite",
      weight.shape, c / weight.dim(1), c % weight.dim(1), h % weight.dim(2), w);
}

}  // namespace ea
