// A tensor with a gradient slot and the node that produced it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "autograd/row_gradient.h"
#include "tensor/tensor.h"

namespace ea {

class Node;

// Another destination of the gradient of an op's output: see retain_gradient()
// in engine.h.
struct Retained;

class Var {
 public:
  Var() = default;  // undefined: means "none"
  explicit Var(Tensor data, bool requires_grad = false);
  // The output of an op: see record() in autograd/node.h.
  Var(Tensor data, std::shared_ptr<Node> node);
  struct Impl;
  explicit Var(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

  bool defined() const { return impl_ != nullptr; }
  const Tensor& data() const { return impl_->data; }
  const Shape& shape() const { return impl_->data.shape(); }
  DType dtype() const { return impl_->data.dtype(); }
  Device device() const { return impl_->data.device(); }
  std::int64_t dim(int axis) const { return impl_->data.dim(axis); }
  int rank() const { return impl_->data.rank(); }
  std::int64_t numel() const { return impl_->data.numel(); }

  bool requires_grad() const;
  void set_requires_grad(bool value);  // leaves only
  bool is_leaf() const { return impl_->node == nullptr; }
  const std::shared_ptr<Node>& node() const { return impl_->node; }

  // Returns the dense gradient; permanently converts one stored as rows.
  const Tensor& grad() const;
  // Returns the gradient as rows, if stored so: check this before grad().
  const RowGradient& row_grad() const { return impl_->row_grad; }
  void set_grad(Tensor grad) const {
    impl_->grad = std::move(grad);
    impl_->row_grad = {};
  }
  // Returns the data without the graph.
  Var detach() const { return Var(impl_->data); }

  struct Impl {
    Tensor data;
    // After backward, `grad` holds the gradient of a leaf, or a retained one;
    // for a table, `row_grad` may hold it instead.
    Tensor grad;
    RowGradient row_grad;
    bool requires_grad = false;
    bool is_table = false;  // an embedding table: row_grad may be used
    std::shared_ptr<Node> node;
    int output = 0;  // index among the node's outputs
    bool retains_grad = false;
    // Gradients that an observer of another node fills in, because the gradient
    // of this output is only a part of the whole; usually null.
    std::shared_ptr<std::vector<Retained>> late;
  };
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

struct Retained {
  std::weak_ptr<Var::Impl> to;
  std::function<Tensor(const Tensor&)> form;  // converts to the form of `to`

  bool wanted() const { return !to.expired(); }
};

}  // namespace ea
