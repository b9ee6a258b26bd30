// Layer normalisation with the residual addition folded in.
#include "ops/layer_norm.h"

#include "autograd/node.h"
#include "kernels/layer_norm.h"
#include "kernels/registry.h"
#include "runtime/check.h"

namespace ea {

Var layer_norm(const Var& x, const Var& weight, const Var& bias, double eps,
               const Var& residual) {
  EA_CHECK(x.rank() >= 1, "layer_norm", "expected at least one axis");
  const std::int64_t width = x.dim(-1);
  EA_CHECK(weight.shape() == Shape({width}) && bias.shape() == Shape({width}),
           "layer_norm", "weight has shape {}, bias {}, expected ({},)",
           weight.shape(), bias.shape(), width);
  EA_CHECK(!residual.defined() || residual.shape() == x.shape(), "layer_norm",
           "residual has shape {}, input {}", residual.shape(), x.shape());
  EA_CHECK_AS(DTypeError,
              weight.dtype() == x.dtype() && bias.dtype() == x.dtype() &&
                  (!residual.defined() || residual.dtype() == x.dtype()),
              "layer_norm",
              "input is {}, weight {}, bias {}: expected one type (and the "
              "residual's); use .to(dtype)",
              x.dtype(), weight.dtype(), bias.dtype());
  const std::int64_t rows = width == 0 ? 0 : x.numel() / width;
  const Shape flat{rows, width};
  const DType statistics = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor x2 = reshape_view(contiguous(x.data()), flat);
  const Tensor mean = empty({rows}, statistics);
  const Tensor rstd = empty({rows}, statistics);
  const Tensor y = empty(flat, x.dtype());
  Tensor sum = x2;
  LayerNormForward::Args args{x2, {},   weight.data(), bias.data(), {},
                              y,  mean, rstd,          eps};
  if (residual.defined()) {
    sum = empty(flat, x.dtype());
    args.residual = reshape_view(contiguous(residual.data()), flat);
    args.sum = sum;
  }
  kernels::run<LayerNormForward>(args);
  const Shape shape = x.shape();
  return record("layer_norm", reshape_view(y, shape),
                {x, weight, bias, residual}, {sum, weight.data(), mean, rstd},
                [shape](const Node& node, const Tensor& grad) {
                  const Tensor& s = node.saved(0);
                  const Tensor& w = node.saved(1);
                  const Tensor dy = reshape_view(grad, s.shape());
                  const Tensor dx = empty(s.shape(), dy.dtype());
                  const Tensor dw = empty(w.shape(), w.dtype());
                  const Tensor db = empty(w.shape(), w.dtype());
                  kernels::run<LayerNormBackward>(
                      {dy, s, w, node.saved(2), node.saved(3), dx, dw, db});
                  const Tensor dx_shaped = reshape_view(dx, shape);
                  return Node::Gradients{dx_shaped, dw, db, dx_shaped};
                });
}

}  // namespace ea
