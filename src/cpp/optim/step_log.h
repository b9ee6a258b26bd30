// Results of training steps, stored on their device until the host reads them.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/var.h"

namespace ea {

// A step adds its losses; then finish() computes the clipping factor and
// whether the step is finite. The host synchronises only in look(). Not
// thread-safe.
class StepLog {
 public:
  static constexpr std::int64_t kRows = 4096;  // most steps between two looks

  struct Row {
    double loss;
    double norm;   // of all gradients, before clipping
    bool applied;  // this and all earlier steps since the last look are finite
  };

  // The log is on the device of the first loss after a look.
  void add_loss(const Tensor& loss, double share);
  // Discards the losses of the current step.
  void restart_step();
  // Returns the factor of the step's gradients, one float64 number for
  // MomentOptimizer::step(). It limits their norm to max_norm (0: no limit),
  // and is NaN from a step that is not finite until the next look. Throws
  // ConfigError without a loss, or after kRows steps without a look.
  Tensor finish(const std::vector<Var>& params, double max_norm);
  std::int64_t steps() const { return steps_; }  // since the last look
  // Synchronises with the device and returns the rows of all steps since the
  // last look. Throws ConfigError in the middle of a step.
  std::vector<Row> look();

 private:
  Tensor cell(std::int64_t row, int column) const;

  Tensor rows_;  // float64 [kRows, columns]
  std::int64_t steps_ = 0;
  bool has_loss_ = false;
};

}  // namespace ea
