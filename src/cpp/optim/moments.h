// Common base of the optimizers: up to two moments per parameter, and float32
// master weights of bfloat16 parameters.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "autograd/var.h"
#include "kernels/optimizer.h"

namespace ea {

// Keeps the state; the kernels of kernels/optimizer.h compute the step.
// Learning rates and decays are per parameter and may change between steps.
class MomentOptimizer {
 public:
  struct Slot {
    Var param;
    double lr = 0.0, weight_decay = 0.0;
    // Whether the state is allocated, at the latest by the first step at which
    // the parameter is not frozen.
    bool made = false;
    // Steps that skipped the parameter: it was frozen or had no gradient.
    std::int64_t missed = 0;
    Tensor moments[2] = {}, master = {};
    // version() of the parameter's memory when `master` last agreed with it.
    std::uint64_t version = 0;
  };

  virtual ~MomentOptimizer() = default;
  MomentOptimizer(const MomentOptimizer&) = delete;
  MomentOptimizer& operator=(const MomentOptimizer&) = delete;

  // Updates every parameter that has a gradient and is not frozen
  // (requires_grad). Gradients are multiplied by grad_scale and by `scale`, if
  // given: one float64 number on the parameters' device. If `scale` is not
  // finite, only the step counts change.
  void step(double grad_scale = 1.0, const Tensor& scale = {});
  const char* name() const { return name_; }
  std::int64_t steps_done() const { return step_; }
  void set_steps_done(std::int64_t step) { step_ = step; }
  std::vector<Slot>& slots() { return slots_; }
  // Sets the rate and the decay of parameters `begin` up to `end`.
  void set_rates(std::size_t begin, std::size_t end, double lr,
                 double weight_decay);
  // Allocates the missing state of parameters that are not frozen, and returns
  // all tensors of the state: "exp_avg.3" is the moment exp_avg of parameter 3.
  std::vector<std::pair<std::string, Tensor>> state();

 protected:
  // `moments`: at most two names. Throws InputError, naming the optimizer, for
  // parameters that are not leaves. Leaves are skipped while they are frozen.
  MomentOptimizer(const char* name, std::vector<const char*> moments,
                  std::vector<Var> params);

  // Runs the kernel for parameters whose step number is `step`, from 1.
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

// Base of Adam's family: moving averages of the gradients and of their squares.
class AdamOptimizer : public MomentOptimizer {
 protected:
  // Also throws ConfigError for settings out of range.
  AdamOptimizer(const char* name, std::vector<Var> params, double beta1,
                double beta2, double eps);

  const double beta1_, beta2_, eps_;
};

}  // namespace ea
