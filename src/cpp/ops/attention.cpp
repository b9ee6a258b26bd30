// Scores and context of packed sequences.
#include "ops/attention.h"

#include "autograd/node.h"
#include "kernels/attention.h"
#include "ops/scoped.h"
#include "runtime/check.h"

namespace ea {

Var attention_scores(const Var& q, const Var& k, const PackingPtr& packing,
                     double scale) {
  packing->check_queries("attention_scores", "q", q.shape());
  packing->check_keys("attention_scores", "k", k.shape());
  EA_CHECK(q.dim(1) == k.dim(1), "attention_scores",
           "q has width {}, k has width {}", q.dim(1), k.dim(1));
  EA_CHECK_AS(DTypeError, q.dtype() == k.dtype(), "attention_scores",
              "q is {}, k is {}; use .to(dtype)", q.dtype(), k.dtype());
  const Tensor tq = contiguous(q.data());
  const Tensor tk = contiguous(k.data());
  const Tensor s = empty({packing->map_elements()}, q.dtype(), q.device());
  run_scoped<EdgeScores, WindowScores, AttentionScores>(*packing, q.device(),
                                                        tq, tk, s, scale);
  return record("attention_scores", s, {q, k}, {tq, tk},
                [packing, scale](const Node& node, const Tensor& ds) {
                  const Tensor& q = node.saved(0);
                  const Tensor& k = node.saved(1);
                  const Tensor dq = empty_like(q);
                  const Tensor dk = empty_like(k);
                  run_scoped<EdgeScoresBackward, WindowScoresBackward,
                             AttentionScoresBackward>(*packing, q.device(), ds,
                                                      q, k, dq, dk, scale);
                  return Node::Gradients{dq, dk};
                });
}

Var attention_context(const Var& p, const Var& v, const PackingPtr& packing) {
  packing->check_keys("attention_context", "v", v.shape());
  packing->check_maps("attention_context", p.numel());
  EA_CHECK_AS(DTypeError, p.dtype() == v.dtype(), "attention_context",
              "maps are {}, v is {}; use .to(dtype)", p.dtype(), v.dtype());
  const Tensor tp = reshape_view(contiguous(p.data()), {p.numel()});
  const Tensor tv = contiguous(v.data());
  const Tensor y =
      empty({packing->total_queries(), v.dim(1)}, v.dtype(), v.device());
  run_scoped<EdgeContext, WindowContext, AttentionContext>(*packing, v.device(),
                                                           tp, tv, y);
  const Shape map_shape = p.shape();
  return record("attention_context", y, {p, v}, {tp, tv},
                [packing, map_shape](const Node& node, const Tensor& dy) {
                  const Tensor& p = node.saved(0);
                  const Tensor& v = node.saved(1);
                  // Only kernels of edges compute one gradient without the
                  // other.
                  const bool all = !packing->is_along_edges();
                  Tensor dp, dv;
                  if (all || node.wants(0)) dp = empty_like(p);
                  if (all || node.wants(1)) dv = empty_like(v);
                  run_scoped<EdgeContextBackward, WindowContextBackward,
                             AttentionContextBackward>(*packing, v.device(), dy,
                                                       p, v, dp, dv);
                  return Node::Gradients{
                      dp.defined() ? reshape_view(dp, map_shape) : dp, dv};
                });
}

}  // namespace ea
