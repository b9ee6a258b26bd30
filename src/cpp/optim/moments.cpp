// Keeps moments and master weights, and passes them to the kernel in one call.
#include "optim/moments.h"

#include <map>

#include "runtime/check.h"

namespace ea {

MomentOptimizer::MomentOptimizer(const char* name,
                                 std::vector<const char*> moments,
                                 std::vector<Var> params)
    : name_(name), moments_(std::move(moments)) {
  for (Var& param : params) {
    EA_CHECK_AS(
        InputError,
        param.defined() && param.is_leaf() && is_floating(param.dtype()), name,
        "parameter {} is not a floating leaf", slots_.size());
    EA_CHECK(param.data().is_contiguous(), name,
             "parameter {} is not contiguous", slots_.size());
    slots_.push_back({.param = std::move(param)});
  }
}

void MomentOptimizer::set_rates(std::size_t begin, std::size_t end, double lr,
                                double weight_decay) {
  EA_CHECK(begin <= end && end <= slots_.size(), name_,
           "parameters {} up to {}, but there are {}", begin, end,
           slots_.size());
  for (std::size_t i = begin; i < end; ++i) {
    slots_[i].lr = lr;
    slots_[i].weight_decay = weight_decay;
  }
}

AdamOptimizer::AdamOptimizer(const char* name, std::vector<Var> params,
                             double beta1, double beta2, double eps)
    : MomentOptimizer(name, {"exp_avg", "exp_avg_sq"}, std::move(params)),
      beta1_(beta1),
      beta2_(beta2),
      eps_(eps) {
  EA_CHECK_AS(ConfigError, beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1,
              name, "betas ({}, {}) are outside [0, 1)", beta1, beta2);
  EA_CHECK_AS(ConfigError, eps >= 0, name, "eps {} is negative", eps);
}

namespace {

// Takes over into `master` what was written to the parameter since the last
// step; elements that still are their master rounded keep it.
void follow_writes(const Tensor& param, Tensor& master) {
  const Tensor now = to_device(contiguous(param), kCpu);
  const Tensor wide = to_device(master, kCpu);
  const Tensor rounded = cast(wide, param.dtype());
  const auto* is = now.data<bfloat16>();
  const auto* was = rounded.data<bfloat16>();
  bool same = true;
  for (std::int64_t i = 0; i < now.numel(); ++i) {
    const float value = static_cast<float>(is[i]);
    if (value == static_cast<float>(was[i])) continue;
    wide.data<float>()[i] = value;
    same = false;
  }
  if (!same && !master.device().is_cpu()) copy_into(wide, master);
}

}  // namespace

void MomentOptimizer::make_state(Slot& slot) const {
  const Device device = slot.param.device();
  const DType dtype = slot.param.dtype();
  const DType wide = wide_type(dtype);
  const auto& storage = slot.param.data().storage();
  for (std::size_t k = 0; k < moments_.size(); ++k) {
    Tensor& moment = slot.moments[k];  // may be on the parameter's old device
    moment = slot.made ? to_device(moment, device)
                       : zeros(slot.param.shape(), wide, device);
  }
  if (slot.master.defined()) slot.master = to_device(slot.master, device);
  if (!slot.made && dtype == DType::bf16) {
    slot.master = cast(slot.param.data(), DType::f32);
  } else if (slot.master.defined() &&
             (slot.version != storage->version() || storage->has_loans())) {
    follow_writes(slot.param.data(), slot.master);
  }
  slot.version = storage->version();
  slot.made = true;
}

std::vector<std::pair<std::string, Tensor>> MomentOptimizer::state() {
  std::vector<std::pair<std::string, Tensor>> all;
  std::size_t i = 0;
  for (Slot& slot : slots_) {
    const std::string number = "." + std::to_string(i++);
    if (!slot.made && !slot.param.requires_grad()) continue;
    make_state(slot);
    for (std::size_t k = 0; k < moments_.size(); ++k) {
      all.emplace_back(moments_[k] + number, slot.moments[k]);
    }
    if (slot.master.defined()) all.emplace_back("master" + number, slot.master);
  }
  return all;
}

void MomentOptimizer::step(double grad_scale, const Tensor& scale) {
  EA_CHECK_AS(
      DTypeError,
      !scale.defined() || (scale.dtype() == DType::f64 && scale.numel() == 1),
      name_, "scale is {} {}, expected one float64 number", scale.dtype(),
      scale.shape());
  const std::int64_t now = step_ + 1;
  std::map<std::int64_t, std::vector<AdamWTensor>> by_step;
  std::vector<Tensor> kept;  // copies, kept until the kernel has run
  std::vector<Slot*> updated, missing;
  for (Slot& slot : slots_) {
    const RowGradient& rows = slot.param.row_grad();
    const Tensor grad = rows.defined() ? rows.rows : slot.param.grad();
    if (!slot.param.requires_grad() || !grad.defined()) {
      missing.push_back(&slot);
      continue;
    }
    make_state(slot);
    const Tensor g = contiguous(grad);
    const Tensor ids =
        rows.defined() ? to_device(rows.ids, slot.param.device()) : Tensor();
    kept.push_back(g);
    kept.push_back(ids);
    updated.push_back(&slot);
    by_step[now - slot.missed].push_back({slot.param.data(), g, slot.moments[0],
                                          slot.moments[1], slot.master, slot.lr,
                                          slot.weight_decay, ids});
  }
  for (const auto& [step, tensors] : by_step) {
    update(tensors, grad_scale,
           scale.defined() ? TensorView(scale) : TensorView(), step);
  }
  for (Slot* slot : updated) {
    const auto& storage = slot->param.data().storage();
    storage->note_write();
    slot->version = storage->version();
  }
  // Counted last: a step without memory, which kernels ask for before they
  // write, can be repeated.
  step_ = now;
  for (Slot* slot : missing) ++slot->missed;
}

}  // namespace ea
