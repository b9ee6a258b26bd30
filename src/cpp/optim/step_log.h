// What training steps came to, kept where they ran until the host looks.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/var.h"

namespace ea {

// A step adds its losses, then finish() clips and judges it: nothing waits for
// the device before look(). Not for several threads.
class StepLog {
 public:
  static constexpr std::int64_t kRows = 4096;  // steps between two looks

  struct Row {
    double loss;
    double norm;   // of all gradients, before clipping
    bool applied;  // finite, as all steps since the look before were
  };

  // The log lies beside the first loss after a look.
  void add_loss(const Tensor& loss, double share);
  // Forgets the losses of the step that is under way.
  void restart_step();
  // The factor of the step's gradients, one float64 number for
  // AdamWOptimizer::step(): it brings their norm to at most max_norm (0: any),
  // and is NaN from a step that is not finite until the next look. Throws
  // ConfigError without a loss, or where kRows steps have not been looked at.
  Tensor finish(const std::vector<Var>& params, double max_norm);
  std::int64_t steps() const { return steps_; }  // since the last look
  // Waits for all steps since the last look, and returns them. Throws
  // ConfigError in the middle of a step.
  std::vector<Row> look();

 private:
  Tensor cell(std::int64_t row, int column) const;

  Tensor rows_;  // float64 [kRows, columns]
  std::int64_t steps_ = 0;
  bool has_loss_ = false;
};

}  // namespace ea
