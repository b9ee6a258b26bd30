// One row per step: loss, sum of squares of the gradients, clipping factor.
#include "optim/step_log.h"

#include <cmath>

#include "kernels/registry.h"
#include "kernels/step_log.h"
#include "optim/clip.h"
#include "runtime/check.h"

namespace ea {

namespace {

enum Column { kLoss, kSquares, kScale, kColumns };

}  // namespace

Tensor StepLog::cell(std::int64_t row, int column) const {
  return slice_view(slice_view(rows_, 0, row, row + 1), 1, column, column + 1);
}

void StepLog::add_loss(const Tensor& loss, double share) {
  EA_CHECK(loss.numel() == 1, "step_log",
           "loss has shape {}, expected one "
           "number",
           loss.shape());
  EA_CHECK_AS(ConfigError, steps_ < kRows, "step_log",
              "{} steps since the last look(), expected fewer", steps_);
  if (!rows_.defined()) {
    rows_ = zeros({kRows, kColumns}, DType::f64, loss.device());
  }
  kernels::run<RecordLoss>({loss, cell(steps_, kLoss), share});
  has_loss_ = true;
}

void StepLog::restart_step() {
  if (!has_loss_) return;
  const Tensor loss = cell(steps_, kLoss);
  copy_into(zeros(loss.shape(), DType::f64, loss.device()), loss);
  has_loss_ = false;
}

Tensor StepLog::finish(const std::vector<Var>& params, double max_norm) {
  EA_CHECK_AS(ConfigError, has_loss_, "step_log",
              "the step has no loss; add_loss() comes before finish()");
  EA_CHECK_AS(ConfigError, max_norm >= 0, "step_log",
              "max_norm {} is negative, expected 0 (any norm) or more",
              max_norm);
  const Tensor squares = cell(steps_, kSquares);
  const Tensor scale = cell(steps_, kScale);
  sum_of_squares(params, squares);
  kernels::run<StepScale>(
      {cell(steps_, kLoss), squares,
       steps_ > 0 ? TensorView(cell(steps_ - 1, kScale)) : TensorView(), scale,
       max_norm});
  ++steps_;
  has_loss_ = false;
  return scale;
}

std::vector<StepLog::Row> StepLog::look() {
  std::vector<Row> rows;
  EA_CHECK_AS(ConfigError, !has_loss_, "step_log",
              "look() in the middle of a step; finish() it first");
  if (steps_ == 0) return rows;
  const Tensor here = to_device(slice_view(rows_, 0, 0, steps_), kCpu);
  const auto* values = here.data<double>();
  for (std::int64_t i = 0; i < steps_; ++i, values += kColumns) {
    rows.push_back({values[kLoss], std::sqrt(values[kSquares]),
                    std::isfinite(values[kScale])});
  }
  rows_ = {};
  steps_ = 0;
  return rows;
}

}  // namespace ea
