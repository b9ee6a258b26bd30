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

// of_values: columns of windows are neighbours for keys, or for values.
constexpr bool kKeys = false, kValues = true;
// of_queries: each key has one sum, or each query.
constexpr bool kPerKey = false, kPerQuery = true;

bool is_dense(const Packing& packing) {
  return !packing.is_along_edges() && !packing.window();
}

// Computes maps = scale x . y over the cells of edges or windows.
void products(const Packing& packing, bool of_values, const Tensor& x,
              const Tensor& y, const Tensor& maps, double scale) {
  if (packing.is_along_edges()) {
    kernels::run<EdgeProducts>(
        {x, y, maps, scale, packing.edge_layout(x.device())});
  } else {
    kernels::run<WindowProducts>(
        {x, y, maps, scale, of_values, packing.window_layout()});
  }
}

// Computes to = scale sum of maps x over the cells of edges or windows.
void sums(const Packing& packing, bool of_queries, bool of_values,
          const Tensor& maps, const Tensor& x, const Tensor& to, double scale) {
  if (packing.is_along_edges()) {
    kernels::run<EdgeSums>(
        {maps, x, to, scale, of_queries, packing.edge_layout(x.device())});
  } else {
    kernels::run<WindowSums>(
        {maps, x, to, scale, of_queries, of_values, packing.window_layout()});
  }
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
  if (is_dense(*packing)) {
    kernels::run<AttentionScores>({tq, tk, s, scale, packing->layout()});
  } else {
    products(*packing, kKeys, tq, tk, s, scale);
  }
  return record("attention_scores", s, {q, k}, {tq, tk},
                [packing, scale](const Node& node, const Tensor& ds) {
                  const Tensor& q = node.saved(0);
                  const Tensor& k = node.saved(1);
                  const Tensor dq = empty_like(q), dk = empty_like(k);
                  if (is_dense(*packing)) {
                    kernels::run<AttentionScoresBackward>(
                        {ds, q, k, dq, dk, scale, packing->layout()});
                  } else {
                    sums(*packing, kPerQuery, kKeys, ds, k, dq, scale);
                    sums(*packing, kPerKey, kKeys, ds, q, dk, scale);
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
  if (is_dense(*packing)) {
    kernels::run<AttentionContext>({tp, tv, y, packing->layout()});
  } else {
    sums(*packing, kPerQuery, kValues, tp, tv, y, 1.0);
  }
  const Shape map_shape = p.shape();
  return record("attention_context", y, {p, v}, {tp, tv},
                [packing, map_shape](const Node& node, const Tensor& dy) {
                  const Tensor& p = node.saved(0);
                  const Tensor& v = node.saved(1);
                  if (is_dense(*packing)) {
                    const Tensor dp = empty_like(p), dv = empty_like(v);
                    kernels::run<AttentionContextBackward>(
                        {dy, p, v, dp, dv, packing->layout()});
                    return Node::Gradients{reshape_view(dp, map_shape), dv};
                  }
                  Tensor dp, dv;
                  if (node.wants(0)) {
                    dp = empty_like(p);
                    products(*packing, kValues, dy, v, dp, 1.0);
                    dp = reshape_view(dp, map_shape);
                  }
                  if (node.wants(1)) {
                    dv = empty_like(v);
                    sums(*packing, kPerKey, kValues, p, dy, dv, 1.0);
                  }
                  return Node::Gradients{dp, dv};
                });
}

}  // namespace ea
