// Walks the tree of parameters and buffers.
#include "nn/module.h"

namespace ea {

namespace {

Tensor shape_alone(const Shape& shape, DType dtype) {
  return {nullptr, 0, shape, contiguous_strides(shape), dtype};
}

}  // namespace

std::vector<Module::Parameter> Module::parameters(
    const std::string& prefix) const {
  std::vector<Parameter> all;
  for (const Parameter& p : own_) {
    all.push_back({prefix + p.name, p.var, p.init, p.addition});
  }
  for (const auto& [name, child] : children_) {
    const std::string below = name.empty() ? prefix : prefix + name + ".";
    for (Parameter& p : child->parameters(below)) all.push_back(std::move(p));
  }
  return all;
}

std::vector<Module::Buffer> Module::buffers(const std::string& prefix) const {
  std::vector<Buffer> all;
  for (const Buffer& b : own_buffers_)
    all.push_back({prefix + b.name, b.var, b.init});
  for (const auto& [name, child] : children_) {
    const std::string below = name.empty() ? prefix : prefix + name + ".";
    for (Buffer& b : child->buffers(below)) all.push_back(std::move(b));
  }
  return all;
}

void Module::to(Device device) {
  const std::vector<Parameter> all = parameters();
  const std::vector<Buffer> kept = buffers();
  std::vector<Var::Impl> moved;
  for (const Parameter& p : all) {
    const Var::Impl& from = *p.var.impl();
    Var::Impl there;
    there.data = to_device(from.data, device);
    if (from.grad.defined()) there.grad = to_device(from.grad, device);
    if (from.row_grad.defined()) {
      there.row_grad = {from.row_grad.ids,
                        to_device(from.row_grad.rows, device)};
    }
    moved.push_back(std::move(there));
  }
  std::vector<Tensor> moved_buffers;
  for (const Buffer& b : kept) {
    moved_buffers.push_back(to_device(b.var.data(), device));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    Var::Impl& target = *all[i].var.impl();
    target.data = std::move(moved[i].data);
    target.grad = std::move(moved[i].grad);
    target.row_grad = std::move(moved[i].row_grad);
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    kept[i].var.impl()->data = std::move(moved_buffers[i]);
  }
}

void Module::train(bool training) {
  training_ = training;
  for (const auto& [name, child] : children_) child->train(training);
}

void Module::set_recompute(bool recompute) {
  recompute_ = recompute;
  for (const auto& [name, child] : children_) child->set_recompute(recompute);
}

void Module::allocate(const std::string& prefix) {
  site_ = stream_site(prefix);
  for (const Parameter& p : own_) {
    Tensor& data = p.var.impl()->data;
    if (data.storage() == nullptr) data = zeros(data.shape(), data.dtype());
  }
  for (const Buffer& b : own_buffers_) {
    Tensor& data = b.var.impl()->data;
    if (data.storage() != nullptr) continue;
    data = empty(data.shape(), data.dtype());
    ea::initialize(data, b.init, 0);  // draws nothing
  }
  for (const auto& [name, child] : children_) {
    child->allocate(name.empty() ? prefix : prefix + name + ".");
  }
}

void Module::initialize(const std::set<std::string>& names) {
  PassStreams pass;
  for (const Parameter& p : parameters()) {
    if (names.count(p.name) == 0) continue;
    ea::initialize(p.var.data(), p.init, stream_site(p.name));
  }
}

void Module::mark_addition() {
  for (Parameter& p : own_) p.addition = true;
  for (const auto& [name, child] : children_) child->mark_addition();
}

Var Module::add_parameter(const std::string& name, const Shape& shape,
                          DType dtype, const Init& init) {
  own_.push_back({name, Var(shape_alone(shape, dtype), true), init});
  return own_.back().var;
}

Var Module::add_buffer(const std::string& name, const Shape& shape, DType dtype,
                       const Init& init) {
  own_buffers_.push_back({name, Var(shape_alone(shape, dtype)), init});
  return own_buffers_.back().var;
}

void Module::add_child(const std::string& name, Module& child) {
  children_.emplace_back(name, &child);
}

}  // namespace ea
