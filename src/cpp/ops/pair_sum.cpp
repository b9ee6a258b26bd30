// Sums of query and key vectors on packed maps.
#include "ops/pair_sum.h"

#include "autograd/node.h"
#include "kernels/edge_attention.h"
#include "kernels/pair_sum.h"
#include "kernels/registry.h"
#include "runtime/check.h"

namespace ea {

namespace {

// pair_sum() along edges, where the cells of a row are adjacent.
Var edge_pair_sum(const Var& u, const Var& v, const PackingPtr& packing) {
  const Tensor y =
      empty({packing->edges()->count(), u.dim(1)}, u.dtype(), u.device());
  kernels::run<EdgePairSum>({contiguous(u.data()), contiguous(v.data()), y,
                             packing->edge_layout(u.device())});
  const Shape queries = u.shape(), keys = v.shape(), rows = y.shape();
  return record(
      "pair_sum", reshape_view(y, {y.numel()}), {u, v}, {},
      [packing, queries, keys, rows](const Node& node, const Tensor& dy) {
        Tensor du, dv;
        if (node.wants(0)) {
          du = empty(queries, dy.dtype(), dy.device());
        }
        if (node.wants(1)) dv = empty(keys, dy.dtype(), dy.device());
        kernels::run<EdgePairSumBackward>({reshape_view(contiguous(dy), rows),
                                           du, dv,
                                           packing->edge_layout(dy.device())});
        return Node::Gradients{du, dv};
      });
}

}  // namespace

Var pair_sum(const Var& u, const Var& v, const PackingPtr& packing) {
  packing->check_queries("pair_sum", "u", u.shape());
  packing->check_keys("pair_sum", "v", v.shape());
  EA_CHECK(u.dim(1) == v.dim(1), "pair_sum", "u has width {}, v has width {}",
           u.dim(1), v.dim(1));
  EA_CHECK_AS(DTypeError, u.dtype() == v.dtype(), "pair_sum",
              "u is {}, v is {}: expected one type; use .to(dtype)", u.dtype(),
              v.dtype());
  if (packing->is_along_edges()) return edge_pair_sum(u, v, packing);
  const Tensor y =
      empty({packing->map_elements() * (u.dim(1) / packing->heads())},
            u.dtype(), u.device());
  kernels::run<PairSum>(
      {contiguous(u.data()), contiguous(v.data()), y, packing->layout()});
  const Shape queries = u.shape(), keys = v.shape();
  return record("pair_sum", y, {u, v}, {},
                [packing, queries, keys](const Node& node, const Tensor& dy) {
                  Tensor du, dv;
                  if (node.wants(0)) {
                    du = empty(queries, dy.dtype(), dy.device());
                  }
                  if (node.wants(1)) dv = empty(keys, dy.dtype(), dy.device());
                  kernels::run<PairSumBackward>(
                      {contiguous(dy), du, dv, packing->layout()});
                  return Node::Gradients{du, dv};
                });
}

}  // namespace ea
