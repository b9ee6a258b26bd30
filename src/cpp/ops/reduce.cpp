// Sums over one axis or all of them; means are scaled sums.
#include "ops/reduce.h"

#include "autograd/node.h"
#include "kernels/reduce.h"
#include "kernels/registry.h"
#include "ops/arithmetic.h"
#include "runtime/check.h"

namespace ea {

namespace {

struct Extent {
  std::int64_t outer = 1, n = 1, inner = 1;
  Shape kept;     // with the axis as 1 (all ones when summing all)
  Shape dropped;  // without it
};

Extent extent_of(const Shape& shape, std::optional<int> axis) {
  Extent e;
  if (!axis) {
    e.n = shape.numel();
    for (int i = 0; i < shape.rank(); ++i) e.kept.append(1);
    return e;
  }
  const int a = normalize_axis(*axis, shape.rank(), "sum");
  for (int i = 0; i < shape.rank(); ++i) {
    if (i < a) e.outer *= shape[i];
    if (i > a) e.inner *= shape[i];
    e.kept.append(i == a ? 1 : shape[i]);
    if (i != a) e.dropped.append(shape[i]);
  }
  e.n = shape[a];
  return e;
}

}  // namespace

Var sum(const Var& x, std::optional<int> axis, bool keepdims) {
  const Extent e = extent_of(x.shape(), axis);
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
  const std::int64_t n = extent_of(x.shape(), axis).n;
  EA_CHECK(n > 0, "mean", "mean of no elements (shape {})", x.shape());
  return scale(sum(x, axis, keepdims), 1.0 / static_cast<double>(n));
}

}  // namespace ea
