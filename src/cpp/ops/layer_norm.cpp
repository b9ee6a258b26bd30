// Layer normalisation with dropout and the residual addition folded in.
#include "ops/layer_norm.h"

#include "autograd/node.h"
#include "kernels/layer_norm.h"
#include "kernels/registry.h"
#include "runtime/check.h"
#include "runtime/fast_paths.h"

namespace ea {

namespace {

void check_arguments(const Var& x, const Var& weight, const Var& bias,
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
}

// Recomputes the output of a node of norm(); the statistics are those of the
// stored sum.
Tensor again(const Node& node, const Shape& shape, double eps) {
  const Tensor& sum = node.saved(0);
  const Tensor y = empty_like(sum);
  const Tensor mean = empty_like(node.saved(2)), rstd = empty_like(mean);
  kernels::run<LayerNormForward>(
      {sum, {}, node.saved(1), node.saved(4), {}, y, mean, rstd, eps});
  return reshape_view(y, shape);
}

// Layer norm of dropout(x) + residual. p = 0: no dropout; without a residual no
// sum is stored.
Var norm(const Var& x, const Var& weight, const Var& bias, double eps,
         const Var& residual, double p, RandomState stream) {
  const std::int64_t width = x.dim(-1);
  const std::int64_t rows = width == 0 ? 0 : x.numel() / width;
  const Shape flat{rows, width};
  const DType statistics = wide_type(x.dtype());
  const Tensor x2 = reshape_view(contiguous(x.data()), flat);
  const Tensor mean = empty({rows}, statistics, x.device());
  const Tensor rstd = empty_like(mean);
  const Tensor y = empty_like(x2);
  Tensor sum = x2;
  LayerNormForward::Args args{x2,  {}, weight.data(), bias.data(),
                              {},  y,  mean,          rstd,
                              eps, p,  stream.seed,   stream.offset};
  if (residual.defined()) {
    sum = empty_like(x2);
    args.residual = reshape_view(contiguous(residual.data()), flat);
    args.sum = sum;
  }
  kernels::run<LayerNormForward>(args);
  const Shape shape = x.shape();
  const Var out =
      record("layer_norm", reshape_view(y, shape), {x, weight, bias, residual},
             {sum, weight.data(), mean, rstd, bias.data()},
             [shape, p, stream](const Node& node, const Tensor& grad) {
               const Tensor& s = node.saved(0);
               const Tensor& w = node.saved(1);
               const Tensor dy = reshape_view(grad, s.shape());
               const Tensor dx = empty_like(s);
               const Tensor dw = empty_like(w);
               const Tensor db = empty_like(w);
               const Tensor ds = p > 0.0 ? empty_like(s) : dx;
               kernels::run<LayerNormBackward>(
                   {dy, s, w, node.saved(2), node.saved(3), dx, dw, db,
                    p > 0.0 ? TensorView(ds) : TensorView(), p, stream.seed,
                    stream.offset});
               return Node::Gradients{reshape_view(dx, shape), dw, db,
                                      reshape_view(ds, shape)};
             });
  return remakable(
      out, [shape, eps](const Node& node) { return again(node, shape, eps); });
}

}  // namespace

Var layer_norm(const Var& x, const Var& weight, const Var& bias, double eps,
               const Var& residual) {
  check_arguments(x, weight, bias, residual);
  return norm(x, weight, bias, eps, residual, 0.0, {});
}

Var dropout_layer_norm(const Var& x, const Var& residual, const Var& weight,
                       const Var& bias, double eps, DropoutSite at) {
  EA_CHECK(residual.defined(), "layer_norm", "dropout needs a residual");
  const bool fuses = at.p > 0.0 && at.p < 1.0 && enabled(FastPath::fused_norm);
  if (!fuses) {
    return layer_norm(dropout(x, at), weight, bias, eps, residual);
  }
  check_arguments(x, weight, bias, residual);
  return norm(x, weight, bias, eps, residual, at.p,
              next_random_stream(at.site));
}

}  // namespace ea
