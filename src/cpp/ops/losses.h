// Losses: cross entropy of classes and of yes or no, and mean squared error.
#pragma once

#include <string_view>

#include "autograd/var.h"

namespace ea {

inline constexpr std::int64_t kIgnoreIndex = -100;

// logits [n, classes], labels int64 [n]; rows labelled ignore_index do not
// count. The loss is a 0-d float32 (float64 for float64 logits).
Var cross_entropy(const Var& logits, const Tensor& labels,
                  double label_smoothing = 0.0,
                  std::int64_t ignore_index = kIgnoreIndex);
// The same with each class's terms times its weight; weight: [classes], or
// undefined for ones. With t the smoothed target of cross_entropy and y a
// row's label,
//   l[n] = -sum_c weight[c] t[n, c] log softmax(x[n])[c],  0 if ignored,
// reduced as PyTorch does: none [n], sum, or mean = sum l / sum weight[y].
enum class Reduction : std::uint8_t { mean, sum, none };
Var weighted_cross_entropy(const Var& logits, const Tensor& labels,
                           const Tensor& weight, double label_smoothing,
                           std::int64_t ignore_index, Reduction reduction);
// -(y log sigmoid(x) + (1 - y) log(1 - sigmoid(x))) of each element, reduced;
// targets y in [0, 1], in the shape of the logits.
Var binary_cross_entropy(const Var& logits, const Tensor& targets,
                         Reduction reduction = Reduction::mean);
// "mean", "sum", "none"; throws ConfigError.
Reduction parse_reduction(std::string_view name, std::string_view op);

// mean((x - y)^2), 0-d; both of one shape.
Var mse_loss(const Var& prediction, const Var& target);

}  // namespace ea
