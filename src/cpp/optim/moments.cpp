// Keeps moments and masters, and hands them to the kernel in one call.
#include "optim/moments.h"

#include <cstring>

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

// The numbers of the step that comes next.
void MomentOptimizer::fill_numbers(float* rows) const {
  const StepNumbers step = numbers_for(step_ + 1);
  for (const Slot& slot : slots_) {
    const TensorNumbers own = step.of(slot.lr, slot.weight_decay);
    *rows++ = static_cast<float>(own.shrink);
    *rows++ = static_cast<float>(own.decay);
    *rows++ = static_cast<float>(own.rate);
  }
  *rows++ = static_cast<float>(step.root_correction2);
  *rows++ = step.rectified() ? 1.0f : 0.0f;
  *rows++ = 0.0f;
}

void MomentOptimizer::prepare_numbers() {
  const Device device = slots_.empty() ? kCpu : slots_[0].param.device();
  const Shape shape{static_cast<std::int64_t>(slots_.size()) + 1, 3};
  if (!numbers_.defined() || numbers_.device() != device) {
    numbers_ = empty(shape, DType::f32, device);
    numbers_here_ = empty(shape, DType::f32);
  }
  fill_numbers(numbers_here_.data<float>());
  copy_into(numbers_here_, numbers_);
  prepared_for_ = step_ + 1;
}

void MomentOptimizer::check_prepared(const char* call) const {
  EA_CHECK_AS(ConfigError, prepared_for_ == step_ + 1, name_,
              "{} of step {}, whose numbers are not prepared; call "
              "prepare_numbers() before each such step",
              call, step_ + 1);
  const auto bytes = static_cast<std::size_t>(numbers_here_.numel()) * 4;
  std::vector<float> now(bytes / 4);
  fill_numbers(now.data());
  EA_CHECK_AS(ConfigError,
              std::memcmp(now.data(), numbers_here_.raw(), bytes) == 0, name_,
              "{} of step {}: a rate or a decay has changed since its numbers "
              "were prepared; call prepare_numbers() again",
              call, step_ + 1);
}

void MomentOptimizer::count_step() {
  check_prepared("count_step()");
  ++step_;
  note_writes();
}

void MomentOptimizer::note_writes() const {
  for (const Slot& slot : slots_) slot.param.data().storage()->note_write();
}

void MomentOptimizer::step(double grad_scale, const Tensor& scale,
                           bool prepared) {
  EA_CHECK_AS(
      DTypeError,
      !scale.defined() || (scale.dtype() == DType::f64 && scale.numel() == 1),
      name_, "scale is {} {}, expected one float64 number", scale.dtype(),
      scale.shape());
  if (prepared) check_prepared("step()");
  ++step_;
  std::vector<AdamWTensor> tensors;
  std::vector<Tensor> kept;  // copies live until the kernel is done
  tensors.reserve(slots_.size());
  std::int64_t number = -1;
  for (Slot& slot : slots_) {
    ++number;
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
                       slot.master, slot.lr, slot.weight_decay, ids, number});
  }
  update(tensors, grad_scale,
         scale.defined() ? TensorView(scale) : TensorView(), step_,
         prepared ? TensorView(numbers_) : TensorView());
  note_writes();
}

void MomentOptimizer::zero_grad() {
  for (Slot& slot : slots_) slot.param.set_grad({});
}

}  // namespace ea
