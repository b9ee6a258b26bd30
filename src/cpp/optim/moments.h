// What the optimizers share: up to two moments a parameter, and float32 masters
// for bfloat16 ones.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
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
    // made at the first step, and not while the parameter is frozen
    bool made = false;
    Tensor moments[2], master;
  };

  virtual ~MomentOptimizer() = default;
  MomentOptimizer(const MomentOptimizer&) = delete;
  MomentOptimizer& operator=(const MomentOptimizer&) = delete;

  // Updates every parameter that has a gradient and is not frozen
  // (requires_grad), grad_scale times the gradient,
  // and `scale` times, one float64 number beside the parameters, where it is
  // given: where it is not finite, nothing changes but steps_done().
  void step(double grad_scale = 1.0, const Tensor& scale = {});
  void zero_grad();
  const char* name() const { return name_; }
  std::int64_t steps_done() const { return step_; }
  void set_steps_done(std::int64_t step) { step_ = step; }
  std::vector<Slot>& slots() { return slots_; }
  // Allocates the state of every parameter that is not frozen and has none yet,
  // and returns all: "exp_avg.3" is the moment of that name of parameter 3.
  std::vector<std::pair<std::string, Tensor>> state();

 protected:
  // `moments`: the names of at most two. Throws InputError for parameters that
  // are not leaves, which names the optimizer. Frozen leaves are skipped until
  // they are not frozen any more.
  MomentOptimizer(const char* name, std::vector<const char*> moments,
                  std::vector<Var> params);

  // Runs the kernel for step number `step`, from 1.
  virtual void update(const std::vector<AdamWTensor>& tensors,
                      double grad_scale, const TensorView& scale,
                      std::int64_t step) = 0;

 private:
  const char* name_;
  std::vector<const char*> moments_;
  std::vector<Slot> slots_;
  std::int64_t step_ = 0;

  void make_state(Slot& slot) const;
};

// Adam's family: means of the gradients and of their squares.
class AdamOptimizer : public MomentOptimizer {
 protected:
  // Throws ConfigError too, for settings out of range.
  AdamOptimizer(const char* name, std::vector<Var> params, double beta1,
                double beta2, double eps);

  const double beta1_, beta2_, eps_;
};

}  // namespace ea
