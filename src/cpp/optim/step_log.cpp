// One row a step: loss, sum of squares of the gradients, factor.
#include "optim/step_log.h"

#include <cmath>

#include "kernels/registry.h"
#include "kernels/step_log.h"
#include "optim/clip.h"
#include "runtime/check.h"
#include "tensor/device_copies.h"

namespace ea {

namespace {

enum Column { kLoss, kSquares, kScale, kColumns };

// In place and in the order of the device's work.
void set(const Tensor& cell, double value) {
  if (cell.device().is_cpu()) {
    *cell.data<double>() = value;
  } else {
    device_copies().fill(cell, value);
  }
}

}  // namespace

Tensor StepLog::cell(int column) const {
  return slice_view(now_, 1, column, column + 1);
}

void StepLog::check_room() const {
  EA_CHECK_AS(ConfigError, steps_ < kRows, "step_log",
              "{} steps since the last look(), expected fewer", steps_);
}

// Between two looks the log stays where it is: the kernels refuse other places.
void StepLog::place(Device device) {
  if (now_.defined() && (now_.device() == device || steps_ > 0)) return;
  rows_ = empty({kRows, kColumns}, DType::f64, device);
  now_ = zeros({1, kColumns}, DType::f64, device);
}

void StepLog::add_loss(const Tensor& loss, double share) {
  EA_CHECK(loss.numel() == 1, "step_log",
           "loss has shape {}, expected one "
           "number",
           loss.shape());
  EA_CHECK_AS(ConfigError, state_ != State::finished, "step_log",
              "the step before is finished and not kept; keep() it first, or "
              "restart_step()");
  check_room();
  if (state_ == State::idle) {
    place(loss.device());
    set(cell(kLoss), 0.0);
    state_ = State::losses;
  }
  kernels::run<RecordLoss>({loss, cell(kLoss), share});
}

void StepLog::restart_step() { state_ = State::idle; }

Tensor StepLog::finish(const std::vector<Var>& params, double max_norm) {
  EA_CHECK_AS(ConfigError, state_ == State::losses, "step_log",
              "the step has no loss; add_loss() comes before finish()");
  EA_CHECK_AS(ConfigError, max_norm >= 0, "step_log",
              "max_norm {} is negative, expected 0 (any norm) or more",
              max_norm);
  const Tensor squares = cell(kSquares), scale = cell(kScale);
  sum_of_squares(params, squares);
  kernels::run<StepScale>({cell(kLoss), squares, scale, scale, max_norm});
  state_ = State::finished;
  return scale;
}

void StepLog::keep() {
  EA_CHECK_AS(ConfigError, now_.defined() && state_ != State::losses,
              "step_log", "no step is finished; finish() comes before keep()");
  check_room();
  copy_into(now_, slice_view(rows_, 0, steps_, steps_ + 1));
  ++steps_;
  state_ = State::idle;
}

std::vector<StepLog::Row> StepLog::look() {
  std::vector<Row> rows;
  EA_CHECK_AS(ConfigError, state_ != State::losses, "step_log",
              "look() in the middle of a step; finish() it first");
  EA_CHECK_AS(ConfigError, state_ != State::finished, "step_log",
              "look() before the last step is kept; keep() it first");
  if (steps_ == 0) return rows;
  const Tensor here = to_device(slice_view(rows_, 0, 0, steps_), kCpu);
  const auto* values = here.data<double>();
  for (std::int64_t i = 0; i < steps_; ++i, values += kColumns) {
    rows.push_back({values[kLoss], std::sqrt(values[kSquares]),
                    std::isfinite(values[kScale])});
  }
  set(cell(kScale), 1.0);  // finite: the next step counts anew
  steps_ = 0;
  return rows;
}

}  // namespace ea
