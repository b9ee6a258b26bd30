// What optimizers of Adam's family share: two moments a parameter, and float32
// masters for bfloat16 ones.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/var.h"
#include "kernels/optimizer.h"

namespace ea {

// The step itself is kernels/optimizer.h; this keeps the state. Rates and
// decays are per parameter and may change between steps.
class MomentOptimizer {
 public:
  struct Slot {
    Var param;
    double lr, weight_decay;
    Tensor exp_avg, exp_avg_sq, master;  // made at the first step
  };

  virtual ~MomentOptimizer() = default;
  MomentOptimizer(const MomentOptimizer&) = delete;
  MomentOptimizer& operator=(const MomentOptimizer&) = delete;

  // Updates every parameter that has a gradient, grad_scale times the gradient,
  // and `scale` times, one float64 number beside the parameters, where it is
  // given: where it is not finite, nothing changes but steps_done().
  void step(double grad_scale = 1.0, const Tensor& scale = {});
  void zero_grad();
  const char* name() const { return name_; }
  std::int64_t steps_done() const { return step_; }
  void set_steps_done(std::int64_t step) { step_ = step; }
  std::vector<Slot>& slots() { return slots_; }
  // Allocates the state of every parameter that has none yet.
  void make_state();

 protected:
  // Throws ConfigError for settings out of range, InputError for parameters
  // that are not floating leaves; both name the optimizer.
  MomentOptimizer(const char* name, std::vector<Var> params, double beta1,
                  double beta2, double eps);

  // Runs the kernel for step number `step`, from 1.
  virtual void update(const std::vector<AdamWTensor>& tensors,
                      double grad_scale, const TensorView& scale,
                      std::int64_t step) = 0;

  const double beta1_, beta2_, eps_;

 private:
  const char* name_;
  std::vector<Slot> slots_;
  std::int64_t step_ = 0;
};

}  // namespace ea
