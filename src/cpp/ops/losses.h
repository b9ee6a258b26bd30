// Losses: cross entropy over classes, binary cross entropy, mean squared error.
#pragma once

#include <string_view>

#include "autograd/var.h"

namespace ea {

inline constexpr std::int64_t kIgnoreIndex = -100;

// logits [n, classes], labels int64 [n]; rows labelled ignore_index do not
// count. The loss is 0-d, float32 (float64 for float64 logits).
Var cross_entropy(const Var& logits, const Tensor& labels,
                  double label_smoothing = 0.0,
                  std::int64_t ignore_index = kIgnoreIndex);
// cross_entropy() with each class's terms multiplied by its weight; weight
// [classes], undefined means ones. With t the smoothed target of
// cross_entropy() and y the label of a row,
//   l[n] = -sum_c weight[c] t[n, c] log softmax(x[n])[c],  0 if ignored,
// reduced as in PyTorch: none [n], sum, or mean = sum l / sum weight[y].
enum class Reduction : std::uint8_t { mean, sum, none };
Var weighted_cross_entropy(const Var& logits, const Tensor& labels,
                           const Tensor& weight, double label_smoothing,
                           std::int64_t ignore_index, Reduction reduction);
// Computes -(y log sigmoid(x) + (1 - y) log(1 - sigmoid(x))) elementwise, then
// reduces. Targets y in [0, 1] have the shape of the logits.
Var binary_cross_entropy(const Var& logits, const Tensor& targets,
                         Reduction reduction = Reduction::mean);
// Parses "mean", "sum" or "none"; throws ConfigError.
Reduction parse_reduction(std::string_view name, std::string_view op);

// mean((x - y)^2), 0-d, for tensors of equal shape.
Var mse_loss(const Var& prediction, const Var& target);

}  // namespace ea
