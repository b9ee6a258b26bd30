// Losses with their checks on labels.
#include "ops/losses.h"

#include "autograd/node.h"
#include "kernels/cross_entropy.h"
#include "kernels/registry.h"
#include "ops/arithmetic.h"
#include "ops/reduce.h"
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

}  // namespace

Var cross_entropy(const Var& logits, const Tensor& labels,
                  double label_smoothing, std::int64_t ignore_index) {
  EA_CHECK(logits.rank() == 2, "cross_entropy",
           "logits have shape {}, expected (rows, classes)", logits.shape());
  EA_CHECK_AS(ConfigError, label_smoothing >= 0.0 && label_smoothing < 1.0,
              "cross_entropy", "label_smoothing {} is outside [0, 1)",
              label_smoothing);
  const Tensor given = to_device(contiguous(labels), kCpu);
  check_labels(given, logits.dim(0), logits.dim(1), ignore_index);
  const Tensor flat_labels = to_device(given, logits.device());
  const DType statistics =
      logits.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor x = contiguous(logits.data());
  const Tensor lse = empty({x.dim(0)}, statistics, x.device());
  const Tensor loss = empty({}, statistics, x.device());
  kernels::run<CrossEntropyForward>(
      {x, flat_labels, lse, loss, label_smoothing, ignore_index});
  return record(
      "cross_entropy", loss, {logits}, {x, flat_labels, lse},
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
  const DType wide = prediction.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Var error = sub(cast(prediction, wide), cast(target, wide));
  return mean(mul(error, error));
}

}  // namespace ea
