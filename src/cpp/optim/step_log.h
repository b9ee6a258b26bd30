// What training steps came to, kept where they ran until the host looks.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/var.h"

namespace ea {

// A step adds its losses, then finish() clips and judges it, and keep() puts
// what it came to down: nothing waits for the device before look(). All but
// keep() and look() works on one row of numbers at one address, so that a step
// can be recorded from its first add_loss() to finish(), and started again with
// keep() after each start. Not for several threads.
class StepLog {
 public:
  static constexpr std::int64_t kRows = 4096;  // steps between two looks

  struct Row {
    double loss;
    double norm;   // of all gradients, before clipping
    bool applied;  // finite, as all steps since the look before were
  };

  // The log lies beside the first loss, and moves with it after a look. The
  // first loss of a step begins at 0 on the device. Throws ConfigError where
  // the step before is not kept, or kRows steps have not been looked at.
  void add_loss(const Tensor& loss, double share);
  // Forgets the step that is under way, or finished and not kept.
  void restart_step();
  // The factor of the step's gradients, one float64 number for
  // AdamWOptimizer::step(): it brings their norm to at most max_norm (0: any),
  // and is NaN from a step that is not finite until the next look. It lies at
  // one address, until the next finish(). Throws ConfigError without a loss.
  Tensor finish(const std::vector<Var>& params, double max_norm);
  // Puts the row of the step that was finished, here or by a recording, among
  // those of the next look. Throws ConfigError in the middle of a step, before
  // the first one, or where kRows steps have not been looked at.
  void keep();
  std::int64_t steps() const { return steps_; }  // since the last look
  // Waits for all steps since the last look, and returns them; the next are
  // judged anew. Throws ConfigError before the step under way is kept.
  std::vector<Row> look();

 private:
  enum class State { idle, losses, finished };

  Tensor cell(int column) const;
  void place(Device device);
  void check_room() const;

  Tensor now_;   // float64 [1, columns]: the step under way
  Tensor rows_;  // float64 [kRows, columns]: those that are kept
  std::int64_t steps_ = 0;
  State state_ = State::idle;
};

}  // namespace ea
