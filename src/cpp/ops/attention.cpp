// Scores and context of packed sequences.
#include "ops/attention.h"

#include "autograd/node.h"
#include "kernels/attention.h"
#include "kernels/edge_attention.h"
#include "kernels/registry.h"
#include "kernels/window_attention.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Gradients of attention_context() along edges; computes only those wanted.
Node::Gradients edge_gradients(const Node& node, const Tensor& dy,
                               const PackingPtr& packing,
                               const Shape& map_shape) {
  const Tensor& p = node.saved(0);
  const Tensor& v = node.saved(1);
  Tensor dp, dv;
  if (node.wants(0)) dp = empty_like(p);
  if (node.wants(1)) dv = empty_like(v);
  kernels::run<EdgeContextBackward>(
      {dy, p, v, dp, dv, packing->edge_layout(v.device())});
  return {dp.defined() ? reshape_view(dp, map_shape) : dp, dv};
}

}  // namespace

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
  if (packing->is_along_edges()) {
    kernels::run<EdgeScores>(
        {tq, tk, s, scale, packing->edge_layout(q.device())});
  } else if (packing->window()) {
    kernels::run<WindowScores>({tq, tk, s, scale, packing->window_layout()});
  } else {
    kernels::run<AttentionScores>({tq, tk, s, scale, packing->layout()});
  }
  return record(
      "attention_scores", s, {q, k}, {tq, tk},
      [packing, scale](const Node& node, const Tensor& ds) {
        const Tensor& q = node.saved(0);
        const Tensor& k = node.saved(1);
        const Tensor dq = empty_like(q);
        const Tensor dk = empty_like(k);
        if (packing->is_along_edges()) {
          kernels::run<EdgeScoresBackward>(
              {ds, q, k, dq, dk, scale, packing->edge_layout(q.device())});
        } else if (packing->window()) {
          kernels::run<WindowScoresBackward>(
              {ds, q, k, dq, dk, scale, packing->window_layout()});
        } else {
          kernels::run<AttentionScoresBackward>(
              {ds, q, k, dq, dk, scale, packing->layout()});
        }
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
  if (packing->is_along_edges()) {
    kernels::run<EdgeContext>({tp, tv, y, packing->edge_layout(v.device())});
  } else if (packing->window()) {
    kernels::run<WindowContext>({tp, tv, y, packing->window_layout()});
  } else {
    kernels::run<AttentionContext>({tp, tv, y, packing->layout()});
  }
  const Shape map_shape = p.shape();
  return record("attention_context", y, {p, v}, {tp, tv},
                [packing, map_shape](const Node& node, const Tensor& dy) {
                  const Tensor& p = node.saved(0);
                  const Tensor& v = node.saved(1);
                  if (packing->is_along_edges()) {
                    return edge_gradients(node, dy, packing, map_shape);
                  }
                  const Tensor dp = empty_like(p);
                  const Tensor dv = empty_like(v);
                  if (packing->window()) {
                    kernels::run<WindowContextBackward>(
                        {dy, p, v, dp, dv, packing->window_layout()});
                  } else {
                    kernels::run<AttentionContextBackward>(
                        {dy, p, v, dp, dv, packing->layout()});
                  }
                  return Node::Gradients{reshape_view(dp, map_shape), dv};
                });
}

}  // namespace ea
