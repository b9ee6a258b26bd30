// Sums over one axis or all axes; means are scaled sums.
#include "ops/reduce.h"

#include "autograd/node.h"
#include "kernels/reduce.h"
#include "kernels/registry.h"
#include "ops/accumulate.h"
#include "ops/arithmetic.h"
#include "ops/extent.h"
#include "runtime/check.h"

namespace ea {

Var sum(const Var& x, std::optional<int> axis, bool keepdims) {
  const Extent e = extent_of(x.shape(), axis, "sum");
  if (!is_floating(x.dtype())) {
    const Tensor y = whole_sums(x.data(), e);
    return Var(reshape_view(y, keepdims ? e.kept : e.dropped));
  }
  const Tensor y = empty({e.outer, e.inner}, x.dtype(), x.device());
  kernels::run<Sum>(
      {reshape_view(contiguous(x.data()), {e.outer, e.n, e.inner}), y});
  const Shape before = x.shape();
  const Shape kept = e.kept;
  return record("sum", reshape_view(y, keepdims ? e.kept : e.dropped), {x}, {},
                [before, kept](const Node&, const Tensor& dy) {
                  return Node::Gradients{
                      clone(expand_view(reshape_view(dy, kept), before))};
                });
}

Var mean(const Var& x, std::optional<int> axis, bool keepdims) {
  if (!is_floating(x.dtype())) {
    return mean(cast(x, DType::f32), axis, keepdims);
  }
  const std::int64_t n = extent_of(x.shape(), axis, "mean").n;
  EA_CHECK(n > 0, "mean", "mean of no elements (shape {})", x.shape());
  return scale(sum(x, axis, keepdims), 1.0 / static_cast<double>(n));
}

}  // namespace ea
