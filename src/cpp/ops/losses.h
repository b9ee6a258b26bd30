// Losses: mean cross entropy and mean squared error.
#pragma once

#include "autograd/var.h"

namespace ea {

inline constexpr std::int64_t kIgnoreIndex = -100;

// logits [n, classes], labels int64 [n]; rows labelled ignore_index do not
// count. The loss is a 0-d float32 (float64 for float64 logits).
Var cross_entropy(const Var& logits, const Tensor& labels,
                  double label_smoothing = 0.0,
                  std::int64_t ignore_index = kIgnoreIndex);
// mean((x - y)^2), 0-d; both of one shape.
Var mse_loss(const Var& prediction, const Var& target);

}  // namespace ea
