// Leaves and op outputs.
#include "autograd/var.h"

#include "autograd/node.h"
#include "runtime/check.h"

namespace ea {

Var::Var(Tensor data, bool requires_grad) : impl_(std::make_shared<Impl>()) {
  impl_->data = std::move(data);
  if (requires_grad) set_requires_grad(true);
}

Var::Var(Tensor data, std::shared_ptr<Node> node)
    : impl_(std::make_shared<Impl>()) {
  impl_->data = std::move(data);
  impl_->requires_grad = node != nullptr;
  impl_->node = std::move(node);
}

const Tensor& Var::grad() const {
  if (impl_->row_grad.defined()) {
    impl_->grad = dense_of(impl_->row_grad, shape());
    impl_->row_grad = {};
  }
  return impl_->grad;
}

bool Var::requires_grad() const {
  return impl_ != nullptr && impl_->requires_grad;
}

void Var::set_requires_grad(bool value) {
  EA_CHECK_AS(InputError, is_leaf(), "requires_grad",
              "only a leaf tensor (made by the user, not by an operation) can "
              "change it; use detach() to cut a result from its graph");
  EA_CHECK_AS(DTypeError, !value || is_floating(dtype()), "requires_grad",
              "{} tensors have no gradient; expected a floating type", dtype());
  impl_->requires_grad = value;
}

}  // namespace ea
