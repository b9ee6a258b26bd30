// Walking of the tree of parameters and buffers.
#include "nn/module.h"

namespace ea {

std::vector<Module::Parameter> Module::parameters(
    const std::string& prefix) const {
  std::vector<Parameter> all;
  for (const Parameter& p : own_)
    all.push_back({prefix + p.name, p.var, p.init});
  for (const auto& [name, child] : children_) {
    const std::string below = name.empty() ? prefix : prefix + name + ".";
    for (Parameter& p : child->parameters(below)) all.push_back(std::move(p));
  }
  return all;
}

std::vector<Module::Buffer> Module::buffers(const std::string& prefix) const {
  std::vector<Buffer> all;
  for (const Buffer& b : own_buffers_) all.push_back({prefix + b.name, b.var});
  for (const auto& [name, child] : children_) {
    const std::string below = name.empty() ? prefix : prefix + name + ".";
    for (Buffer& b : child->buffers(below)) all.push_back(std::move(b));
  }
  return all;
}

void Module::train(bool training) {
  training_ = training;
  for (const auto& [name, child] : children_) child->train(training);
}

void Module::set_recompute(bool recompute) {
  recompute_ = recompute;
  for (const auto& [name, child] : children_) child->set_recompute(recompute);
}

Var Module::add_parameter(const std::string& name, const Shape& shape,
                          DType dtype, const Init& init) {
  own_.push_back({name, Var(zeros(shape, dtype), true), init});
  return own_.back().var;
}

Var Module::add_buffer(const std::string& name, const Shape& shape, DType dtype,
                       const Init& init) {
  own_buffers_.push_back({name, Var(empty(shape, dtype))});
  initialize(own_buffers_.back().var.data(), init);
  return own_buffers_.back().var;
}

void Module::add_child(const std::string& name, Module& child) {
  children_.emplace_back(name, &child);
}

}  // namespace ea
