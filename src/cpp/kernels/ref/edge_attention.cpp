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
void edge_products_of(const EdgeProducts::Args& args) {
  cell_products<T>(args.x, args.y, args.maps, args.scale,
                   args.x.dim(1) / args.layout.heads, edge_cells(args.layout));
}

template <typename T>
void edge_sums_of(const EdgeSums::Args& args) {
  const auto cells = edge_cells(args.layout);
  const std::int64_t d = args.to.dim(1) / args.layout.heads;
  if (args.of_queries) {
    weighted_sums<T, true>(args.maps, args.x, args.to, args.scale, d, cells);
  } else {
    weighted_sums<T, false>(args.maps, args.x, args.to, args.scale, d, cells);
  }
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

}  // namespace

EA_RUN_REF(EdgePairSum, edge_pair_sum_of, y)
EA_RUN_REF(EdgePairSumBackward, edge_pair_sum_backward_of, dy)
EA_RUN_REF(EdgeProducts, edge_products_of, x)
EA_RUN_REF(EdgeSums, edge_sums_of, maps)
EA_RUN_REF(EdgeSoftmax, edge_softmax_of, x)
EA_RUN_REF(EdgeSoftmaxBackward, edge_softmax_backward_of, y)

}  // namespace ea::ref
