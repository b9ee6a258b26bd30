// Losses, and checks of their labels.
#include "ops/losses.h"

#include <cmath>
#include <vector>

#include "autograd/node.h"
#include "kernels/cross_entropy.h"
#include "kernels/registry.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/reduce.h"
#include "ops/selection.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"

namespace ea {

namespace {

void check_labels(const Tensor& labels, std::int64_t rows, std::int64_t classes,
                  std::int64_t ignore_index) {
  EA_CHECK_AS(DTypeError, labels.dtype() == DType::i64, "cross_entropy",
              "labels must be int64, got {}", labels.dtype());
  EA_CHECK(labels.numel() == rows, "cross_entropy",
           "{} labels for {} rows of logits", labels.numel(), rows);
  const auto* values = labels.data<std::int64_t>();
  for (std::int64_t i = 0; i < rows; ++i) {
    EA_CHECK_AS(
        InputError,
        (values[i] >= 0 && values[i] < classes) || values[i] == ignore_index,
        "cross_entropy",
        "labels[{}] = {} is not one of {} classes; expected 0 to {} "
        "(or {} to leave the row out)",
        i, values[i], classes, classes - 1, ignore_index);
  }
}

// Checks all arguments and returns the labels on the host.
Tensor checked(const Var& logits, const Tensor& labels, double label_smoothing,
               std::int64_t ignore_index) {
  EA_CHECK(logits.rank() == 2, "cross_entropy",
           "logits have shape {}, expected (rows, classes)", logits.shape());
  EA_CHECK_AS(ConfigError, label_smoothing >= 0.0 && label_smoothing < 1.0,
              "cross_entropy", "label_smoothing {} is outside [0, 1)",
              label_smoothing);
  Tensor given = to_device(contiguous(labels), kCpu);
  check_labels(given, logits.dim(0), logits.dim(1), ignore_index);
  return given;
}

std::vector<double> class_weights(const Tensor& weight, std::int64_t classes) {
  if (!weight.defined()) return std::vector<double>(classes, 1.0);
  EA_CHECK(weight.rank() == 1 && weight.dim(0) == classes, "cross_entropy",
           "weight has shape {}, expected ({},): one for each class",
           weight.shape(), classes);
  const Tensor given = to_device(cast(contiguous(weight), DType::f64), kCpu);
  const auto* values = given.data<double>();
  for (std::int64_t c = 0; c < classes; ++c) {
    EA_CHECK_AS(
        InputError, values[c] >= 0.0 && values[c] < INFINITY, "cross_entropy",
        "weight[{}] is {}, expected a finite number from 0", c, values[c]);
  }
  return {values, values + classes};
}

// Computes -sum_c t[n, c] log softmax(x[n])[c] for rows x [n, classes] and
// targets t of any sum. With m the maximum of a row, taken as a constant, and u
// = x - m, it equals (sum_c t) log sum_c exp u - sum_c t u: m cancels, and
// nothing overflows.
Var rows_against(const Var& x, const Tensor& targets) {
  const DType wide = wide_type(x.dtype());
  const Var t(to_device(cast(targets, wide), x.device()));
  const Var given = cast(x, wide);
  const Var u = sub(given, Var(max(Var(given.data()), 1, true).data()));
  const Var lse =
      activation(sum(activation(u, Activation::exp), 1), Activation::log);
  // A class without a target counts 0, also where u is -inf.
  const bool finite = std::isfinite(sum(Var(u.data())).data().item());
  const Var zero(full({}, wide, 0.0, x.device()));
  const Var aimed = finite ? u : where(t.data(), u, zero);
  return sub(mul(sum(t, 1), lse), sum(mul(t, aimed), 1));
}

Var reduced(const Var& rows, Reduction reduction, double count) {
  if (reduction == Reduction::none) return rows;
  const Var total = sum(rows);
  if (reduction == Reduction::sum) return total;
  if (count > 0) return scale(total, 1.0 / count);
  // The mean of no rows is NaN, but its gradient is 0, not 0 / 0.
  return add(scale(total, 0.0),
             Var(full({}, total.dtype(), NAN, total.device())));
}

}  // namespace

Reduction parse_reduction(std::string_view name, std::string_view op) {
  if (name == "mean") return Reduction::mean;
  if (name == "sum") return Reduction::sum;
  EA_CHECK_AS(ConfigError, name == "none", op,
              "reduction '{}' is not known; expected mean, sum or none", name);
  return Reduction::none;
}

Var weighted_cross_entropy(const Var& logits, const Tensor& labels,
                           const Tensor& weight, double label_smoothing,
                           std::int64_t ignore_index, Reduction reduction) {
  const Tensor given = checked(logits, labels, label_smoothing, ignore_index);
  const std::int64_t n = logits.dim(0), classes = logits.dim(1);
  const std::vector<double> w = class_weights(weight, classes);
  const Tensor targets = empty({n, classes}, DType::f64, kCpu);
  auto* t = targets.data<double>();
  const auto* y = given.data<std::int64_t>();
  double total = 0.0;
  for (std::int64_t i = 0; i < n; ++i, t += classes) {
    const bool counts = y[i] != ignore_index;
    for (std::int64_t c = 0; c < classes; ++c) {
      const double hard = c == y[i] ? 1.0 - label_smoothing : 0.0;
      const double even = label_smoothing / static_cast<double>(classes);
      t[c] = counts ? w[c] * (hard + even) : 0.0;
    }
    if (counts) total += w[y[i]];
  }
  return reduced(rows_against(logits, targets), reduction, total);
}

Var binary_cross_entropy(const Var& logits, const Tensor& targets,
                         Reduction reduction) {
  constexpr const char* kOp = "binary_cross_entropy_with_logits";
  EA_CHECK(logits.shape() == targets.shape(), kOp,
           "logits have shape {}, targets {}", logits.shape(), targets.shape());
  const std::int64_t n = logits.data().numel();
  const Tensor given = to_device(cast(contiguous(targets), DType::f64), kCpu);
  const auto* y = given.data<double>();
  // sigmoid(x) is the second entry of softmax(0, x).
  const Tensor pairs = empty({n, 2}, DType::f64, kCpu);
  auto* t = pairs.data<double>();
  for (std::int64_t i = 0; i < n; ++i) {
    EA_CHECK_AS(InputError, y[i] >= 0.0 && y[i] <= 1.0, kOp,
                "target {} is {}, expected a number from 0 (no) to 1 (yes)", i,
                y[i]);
    t[2 * i] = 1.0 - y[i];
    t[2 * i + 1] = y[i];
  }
  const Var flat = reshape(logits, {n, 1});
  const Var none(zeros({n, 1}, logits.dtype(), logits.device()));
  const Var rows = rows_against(concat({none, flat}, 1), pairs);
  return reduced(reshape(rows, logits.shape()), reduction,
                 static_cast<double>(n));
}

Var cross_entropy(const Var& logits, const Tensor& labels,
                  double label_smoothing, std::int64_t ignore_index) {
  const Tensor given = checked(logits, labels, label_smoothing, ignore_index);
  const Tensor flat_labels = to_device(given, logits.device());
  const DType statistics = wide_type(logits.dtype());
  const Tensor x = contiguous(logits.data());
  const Tensor sums = empty({x.dim(0), 2}, statistics, x.device());
  const Tensor loss = empty({}, statistics, x.device());
  kernels::run<CrossEntropyForward>(
      {x, flat_labels, sums, loss, label_smoothing, ignore_index});
  return record(
      "cross_entropy", loss, {logits}, {x, flat_labels, sums},
      [label_smoothing, ignore_index](const Node& node, const Tensor& dy) {
        const Tensor& x = node.saved(0);
        const Tensor dx = empty_like(x);
        kernels::run<CrossEntropyBackward>({dy, x, node.saved(1), node.saved(2),
                                            dx, label_smoothing, ignore_index});
        return Node::Gradients{dx};
      });
}

Var mse_loss(const Var& prediction, const Var& target) {
  EA_CHECK(prediction.shape() == target.shape(), "mse_loss",
           "prediction has shape {}, target {}", prediction.shape(),
           target.shape());
  const DType wide = wide_type(prediction.dtype());
  const Var error = sub(cast(prediction, wide), cast(target, wide));
  return mean(mul(error, error));
}

}  // namespace ea
