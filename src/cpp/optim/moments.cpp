// Keeps moments and masters, and hands them to the kernel in one call.
#include "optim/moments.h"

#include "runtime/check.h"

namespace ea {

namespace {

void make_slot_state(MomentOptimizer::Slot& slot) {
  const Device device = slot.param.device();
  if (slot.exp_avg.defined()) {  // the parameter may have moved since
    slot.exp_avg = to_device(slot.exp_avg, device);
    slot.exp_avg_sq = to_device(slot.exp_avg_sq, device);
    if (slot.master.defined()) slot.master = to_device(slot.master, device);
    return;
  }
  const DType dtype = slot.param.dtype();
  const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  slot.exp_avg = zeros(slot.param.shape(), wide, device);
  slot.exp_avg_sq = zeros(slot.param.shape(), wide, device);
  if (dtype == DType::bf16) slot.master = cast(slot.param.data(), DType::f32);
}

}  // namespace

MomentOptimizer::MomentOptimizer(const char* name, std::vector<Var> params,
                                 double beta1, double beta2, double eps)
    : beta1_(beta1), beta2_(beta2), eps_(eps), name_(name) {
  EA_CHECK_AS(ConfigError, beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1,
              name, "betas ({}, {}) are outside [0, 1)", beta1, beta2);
  EA_CHECK_AS(ConfigError, eps >= 0, name, "eps {} is negative", eps);
  for (Var& param : params) {
    EA_CHECK_AS(InputError,
                param.defined() && param.is_leaf() && param.requires_grad(),
                name, "parameter {} is not a leaf that requires a gradient",
                slots_.size());
    EA_CHECK(param.data().is_contiguous(), name,
             "parameter {} is not contiguous", slots_.size());
    slots_.push_back({std::move(param), 0.0, 0.0, {}, {}, {}});
  }
}

void MomentOptimizer::make_state() {
  for (Slot& slot : slots_) make_slot_state(slot);
}

void MomentOptimizer::step(double grad_scale, const Tensor& scale) {
  EA_CHECK_AS(
      DTypeError,
      !scale.defined() || (scale.dtype() == DType::f64 && scale.numel() == 1),
      name_, "scale is {} {}, expected one float64 number", scale.dtype(),
      scale.shape());
  ++step_;
  std::vector<AdamWTensor> tensors;
  std::vector<Tensor> kept;  // copies live until the kernel is done
  tensors.reserve(slots_.size());
  for (Slot& slot : slots_) {
    const RowGradient& rows = slot.param.row_grad();
    const Tensor grad = rows.defined() ? rows.rows : slot.param.grad();
    if (!grad.defined()) continue;
    make_slot_state(slot);
    const Tensor g = contiguous(grad);
    const Tensor ids =
        rows.defined() ? to_device(rows.ids, slot.param.device()) : Tensor();
    kept.push_back(g);
    kept.push_back(ids);
    tensors.push_back({slot.param.data(), g, slot.exp_avg, slot.exp_avg_sq,
                       slot.master, slot.lr, slot.weight_decay, ids});
  }
  update(tensors, grad_scale,
         scale.defined() ? TensorView(scale) : TensorView(), step_);
  for (const Slot& slot : slots_) slot.param.data().storage()->note_write();
}

void MomentOptimizer::zero_grad() {
  for (Slot& slot : slots_) slot.param.set_grad({});
}

}  // namespace ea
