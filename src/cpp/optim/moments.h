// What optimizers of Adam's family share: two moments a parameter, and float32
// masters for bfloat16 ones.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/var.h"
#include "kernels/optimizer_numbers.h"

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
  // With `prepared`, rates and everything else that depends on the number of
  // the step is read on the device from what prepare_numbers() put there: what
  // the step starts can be recorded, and started again for other steps. Throws
  // ConfigError where that was not the last thing that happened to them.
  void step(double grad_scale = 1.0, const Tensor& scale = {},
            bool prepared = false);
  // Puts the numbers of the next step, with the slots' rates and decays as they
  // are, where step() reads them: at one address for as long as the parameters
  // stay on their device. Nobody waits for it.
  void prepare_numbers();
  // The step for which numbers are prepared is done by a recording. Throws
  // ConfigError as step() does.
  void count_step();
  void zero_grad();
  const char* name() const { return name_; }
  std::int64_t steps_done() const { return step_; }
  void set_steps_done(std::int64_t step) {
    step_ = step;
    prepared_for_ = 0;
  }
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
                      std::int64_t step, const TensorView& numbers) = 0;
  virtual StepNumbers numbers_for(std::int64_t step) const = 0;

  const double beta1_, beta2_, eps_;

 private:
  const char* name_;
  std::vector<Slot> slots_;
  std::int64_t step_ = 0;
  // float32 [slots + 1, 3], as kernels/optimizer.h has it
  Tensor numbers_, numbers_here_;
  std::int64_t prepared_for_ = 0;

  void fill_numbers(float* rows) const;
  void check_prepared(const char* call) const;
  void note_writes() const;  // the parameters have changed
};

}  // namespace ea
