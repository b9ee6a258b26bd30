// Root mean square normalisation; the backward reads x and one number per row.
#include "ops/rms_norm.h"

#include "autograd/node.h"
#include "kernels/registry.h"
#include "kernels/rms_norm.h"
#include "runtime/check.h"

namespace ea {

Var rms_norm(const Var& x, const Var& weight, double eps) {
  EA_CHECK(x.rank() >= 1, "rms_norm", "expected at least one axis");
  const std::int64_t width = x.dim(-1);
  EA_CHECK(weight.shape() == Shape({width}), "rms_norm",
           "weight has shape {}, expected ({},)", weight.shape(), width);
  EA_CHECK_AS(DTypeError, weight.dtype() == x.dtype(), "rms_norm",
              "input is {}, weight {}: expected one type; use .to(dtype)",
              x.dtype(), weight.dtype());
  const std::int64_t rows = width == 0 ? 0 : x.numel() / width;
  const DType statistics = wide_type(x.dtype());
  const Tensor x2 = reshape_view(contiguous(x.data()), {rows, width});
  const Tensor y = empty_like(x2);
  const Tensor rrms = empty({rows}, statistics, x.device());
  kernels::run<RmsNormForward>({x2, weight.data(), y, rrms, eps});
  const Shape shape = x.shape();
  // kernels/ref/rms_norm.cpp derives the backward.
  const Var out = record(
      "rms_norm", reshape_view(y, shape), {x, weight},
      {x2, weight.data(), rrms}, [shape](const Node& node, const Tensor& grad) {
        const Tensor& x = node.saved(0);
        const Tensor& w = node.saved(1);
        const Tensor dy = reshape_view(grad, x.shape());
        const Tensor dx = empty_like(x);
        const Tensor dw = empty_like(w);
        kernels::run<RmsNormBackward>({dy, x, w, node.saved(2), dx, dw});
        return Node::Gradients{reshape_view(dx, shape), dw};
      });
  return remakable(out, [shape, eps](const Node& node) {
    const Tensor& x = node.saved(0);
    const Tensor y = empty_like(x), rrms = empty_like(node.saved(2));
    kernels::run<RmsNormForward>({x, node.saved(1), y, rrms, eps});
    return reshape_view(y, shape);
  });
}

}  // namespace ea
