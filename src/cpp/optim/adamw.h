// AdamW over groups of parameters, with float32 masters for bfloat16 ones.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/var.h"
#include "kernels/optimizer.h"

namespace ea {

// The step itself is kernels/optimizer.h; this keeps the state. Rates and
// decays are per parameter and may change between steps.
class AdamWOptimizer {
 public:
  struct Slot {
    Var param;
    double lr, weight_decay;
    Tensor exp_avg, exp_avg_sq, master;  // made at the first step
  };

  // Throws ConfigError for settings out of range, InputError for parameters
  // that are not floating leaves.
  AdamWOptimizer(std::vector<Var> params, double beta1, double beta2,
                 double eps);

  // Updates every parameter that has a gradient, grad_scale times the gradient.
  void step(double grad_scale = 1.0);
  void zero_grad();
  std::int64_t steps_done() const { return step_; }
  void set_steps_done(std::int64_t step) { step_ = step; }
  std::vector<Slot>& slots() { return slots_; }
  // Allocates the state of every parameter that has none yet.
  void make_state();

 private:
  std::vector<Slot> slots_;
  double beta1_, beta2_, eps_;
  std::int64_t step_ = 0;
};

}  // namespace ea
