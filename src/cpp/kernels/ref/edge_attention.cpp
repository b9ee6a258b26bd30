// Reference for attention along the edges of a graph, edge by edge.
#include "kernels/edge_attention.h"

#include "kernels/ref/cells.h"
#include "kernels/ref/run.h"

namespace ea::ref {

namespace {

struct EdgeCell {
  std::int64_t at, query, key;
};

// The cells (e, h) of each query and head, in edge order.
auto edge_cells(const EdgeLayout& layout) {
  return [&layout](const auto& fn) {
    const auto* starts = layout.starts.as<const std::int64_t>();
    const auto* keys = layout.keys.as<const std::int64_t>();
    const std::int64_t heads = layout.heads;
    for (std::int64_t i = 0; i < layout.n_q(); ++i) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t e = starts[i]; e < starts[i + 1]; ++e) {
          fn(EdgeCell{e * heads + h, i * heads + h, keys[e] * heads + h});
        }
      }
    }
  };
}

template <typename T>
void edge_products(const TensorView& x, const TensorView& y,
                   const TensorView& maps, double scale,
                   const EdgeLayout& layout) {
  if (!maps.defined()) return;
  cell_products<T>(x, y, maps, scale, x.dim(1) / layout.heads,
                   edge_cells(layout));
}

template <typename T, bool kQueries>
void edge_sums(const TensorView& maps, const TensorView& x,
               const TensorView& to, double scale, const EdgeLayout& layout) {
  if (!to.defined()) return;
  weighted_sums<T, kQueries>(maps, x, to, scale, to.dim(1) / layout.heads,
                             edge_cells(layout));
}

template <typename T>
void edge_softmax_of(const EdgeSoftmax::Args& args) {
  cell_softmax<T>(args.x, args.y, args.scale, edge_cells(args.layout));
}

template <typename T>
void edge_softmax_backward_of(const EdgeSoftmaxBackward::Args& args) {
  cell_softmax_backward<T>(args.dy, args.y, args.dx, args.scale,
                           edge_cells(args.layout));
}

template <typename T>
void edge_pair_sum_of(const EdgePairSum::Args& args) {
  pair_sums<T>(args.u, args.v, args.y, args.y.dim(1) / args.layout.heads,
               edge_cells(args.layout));
}

template <typename T>
void edge_pair_sum_backward_of(const EdgePairSumBackward::Args& args) {
  const auto cells = edge_cells(args.layout);
  const std::int64_t d = args.dy.dim(1) / args.layout.heads;
  if (args.du.defined()) sums_of_pairs<T, true>(args.dy, args.du, d, cells);
  if (args.dv.defined()) sums_of_pairs<T, false>(args.dy, args.dv, d, cells);
}

template <typename T>
void edge_scores_of(const EdgeScores::Args& args) {
  edge_products<T>(args.q, args.k, args.scores, args.scale, args.layout);
}

template <typename T>
void edge_scores_backward_of(const EdgeScoresBackward::Args& args) {
  edge_sums<T, true>(args.dscores, args.k, args.dq, args.scale, args.layout);
  edge_sums<T, false>(args.dscores, args.q, args.dk, args.scale, args.layout);
}

template <typename T>
void edge_context_of(const EdgeContext::Args& args) {
  edge_sums<T, true>(args.p, args.v, args.y, 1.0, args.layout);
}

template <typename T>
void edge_context_backward_of(const EdgeContextBackward::Args& args) {
  edge_products<T>(args.dy, args.v, args.dp, 1.0, args.layout);
  edge_sums<T, false>(args.p, args.dy, args.dv, 1.0, args.layout);
}

}  // namespace

EA_RUN_REF(EdgePairSum, edge_pair_sum_of, y)
EA_RUN_REF(EdgePairSumBackward, edge_pair_sum_backward_of, dy)
EA_RUN_REF(EdgeScores, edge_scores_of, q)
EA_RUN_REF(EdgeScoresBackward, edge_scores_backward_of, q)
EA_RUN_REF(EdgeSoftmax, edge_softmax_of, x)
EA_RUN_REF(EdgeSoftmaxBackward, edge_softmax_backward_of, y)
EA_RUN_REF(EdgeContext, edge_context_of, p)
EA_RUN_REF(EdgeContextBackward, edge_context_backward_of, p)

}  // namespace ea::ref
