// Weight normalisation over all axes but the first.
#include "ops/weight_norm.h"

#include "autograd/node.h"
#include "kernels/registry.h"
#include "kernels/weight_norm.h"
#include "runtime/check.h"

namespace ea {

namespace {

void check_arguments(const Var& v, const Var& g) {
  EA_CHECK(v.rank() >= 2, "weight_norm",
           "v has shape {}, expected (out, ...) of two axes or more",
           v.shape());
  Shape ones{v.dim(0)};
  for (int axis = 1; axis < v.rank(); ++axis) ones.append(1);
  EA_CHECK(g.shape() == Shape({v.dim(0)}) || g.shape() == ones, "weight_norm",
           "g has shape {}, expected ({},) or {}: one length a row of v {}",
           g.shape(), v.dim(0), ones, v.shape());
  EA_CHECK_AS(DTypeError, g.dtype() == v.dtype(), "weight_norm",
              "v is {}, g {}: expected one type; use .to(dtype)", v.dtype(),
              g.dtype());
}

}  // namespace

Var weight_norm(const Var& v, const Var& g) {
  check_arguments(v, g);
  const Shape shape = v.shape();
  const Shape lengths = g.shape();
  const std::int64_t rows = v.dim(0);
  const Shape flat{rows, rows == 0 ? 0 : v.numel() / rows};
  const Tensor v2 = reshape_view(contiguous(v.data()), flat);
  const Tensor g1 = reshape_view(contiguous(g.data()), {rows});
  const Tensor norm = empty({rows}, wide_type(v.dtype()), v.device());
  const Tensor w = empty_like(v2);
  kernels::run<WeightNormForward>({v2, g1, w, norm});
  return record("weight_norm", reshape_view(w, shape), {v, g}, {v2, g1, norm},
                [shape, lengths](const Node& node, const Tensor& grad) {
                  const Tensor& v = node.saved(0);
                  const Tensor& g = node.saved(1);
                  const Tensor dv = empty_like(v);
                  const Tensor dg = empty_like(g);
                  kernels::run<WeightNormBackward>(
                      {reshape_view(contiguous(grad), v.shape()), v, g,
                       node.saved(2), dv, dg});
                  return Node::Gradients{reshape_view(dv, shape),
                                         reshape_view(dg, lengths)};
                });
}

}  // namespace ea
