// Reference for attention along the edges of a graph, edge by edge.
#include "kernels/edge_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/ref/run.h"

namespace ea::ref {

namespace {

// Calls fn(e, i, j) for each edge e from key j to query i, in edge order.
template <typename Fn>
void for_each_edge(const EdgeLayout& layout, Fn&& fn) {
  const auto* starts = layout.starts.as<const std::int64_t>();
  const auto* keys = layout.keys.as<const std::int64_t>();
  for (std::int64_t i = 0; i < layout.n_q(); ++i) {
    for (std::int64_t e = starts[i]; e < starts[i + 1]; ++e) fn(e, i, keys[e]);
  }
}

// maps[e, h] = scale x[i, h] . y[j, h].
template <typename T>
void edge_products(const TensorView& x, const TensorView& y,
                   const TensorView& maps, double scale,
                   const EdgeLayout& layout) {
  using A = Accumulator<T>;
  const std::int64_t width = x.dim(1), d = width / layout.heads;
  for_each_edge(layout, [&](std::int64_t e, std::int64_t i, std::int64_t j) {
    for (std::int64_t h = 0; h < layout.heads; ++h) {
      const T* u = x.as<const T>() + i * width + h * d;
      const T* v = y.as<const T>() + j * width + h * d;
      A sum = 0;
      for (std::int64_t c = 0; c < d; ++c) sum += A(u[c]) * A(v[c]);
      maps.as<T>()[e * layout.heads + h] = T(A(scale) * sum);
    }
  });
}

// to[i, h] = scale sum of maps[e, h] x[j, h] over the edges of query i. If not
// kQueries, to[j, h] is the sum with x[i, h] over the edges of key j.
template <typename T, bool kQueries>
void edge_sums(const TensorView& maps, const TensorView& x,
               const TensorView& to, double scale, const EdgeLayout& layout) {
  using A = Accumulator<T>;
  const std::int64_t width = to.dim(1), d = width / layout.heads;
  std::vector<A> total(static_cast<std::size_t>(to.numel()));
  for_each_edge(layout, [&](std::int64_t e, std::int64_t i, std::int64_t j) {
    const T* from = x.as<const T>() + (kQueries ? j : i) * width;
    A* sum = total.data() + (kQueries ? i : j) * width;
    for (std::int64_t c = 0; c < width; ++c) {
      const T weight = maps.as<const T>()[e * layout.heads + c / d];
      sum[c] += A(weight) * A(from[c]);
    }
  });
  std::transform(total.begin(), total.end(), to.as<T>(),
                 [&](A sum) { return T(A(scale) * sum); });
}

// Sums dy over the edges of each query (of each key, if not kQueries).
template <typename T, bool kQueries>
void edge_row_sums(const TensorView& dy, const TensorView& to,
                   const EdgeLayout& layout) {
  using A = Accumulator<T>;
  const std::int64_t width = to.dim(1);
  std::vector<A> total(static_cast<std::size_t>(to.numel()));
  for_each_edge(layout, [&](std::int64_t e, std::int64_t i, std::int64_t j) {
    A* sum = total.data() + (kQueries ? i : j) * width;
    for (std::int64_t c = 0; c < width; ++c) {
      sum[c] += A(dy.as<const T>()[e * width + c]);
    }
  });
  std::transform(total.begin(), total.end(), to.as<T>(),
                 [](A sum) { return T(sum); });
}

// Calls fn(first, last, step) with the elements of each query and head: first,
// first + step, .. below last.
template <typename Fn>
void for_each_edge_row(const EdgeLayout& layout, Fn&& fn) {
  const auto* starts = layout.starts.as<const std::int64_t>();
  for (std::int64_t i = 0; i < layout.n_q(); ++i) {
    for (std::int64_t h = 0; h < layout.heads; ++h) {
      fn(starts[i] * layout.heads + h, starts[i + 1] * layout.heads,
         layout.heads);
    }
  }
}

template <typename T>
void edge_softmax_of(const EdgeSoftmax::Args& args) {
  using A = Accumulator<T>;
  const T* x = args.x.as<const T>();
  T* y = args.y.as<T>();
  const A scale = A(args.scale);
  for_each_edge_row(args.layout, [&](std::int64_t first, std::int64_t last,
                                     std::int64_t step) {
    A largest = -std::numeric_limits<A>::infinity();
    for (std::int64_t at = first; at < last; at += step) {
      largest = std::max(largest, scale * A(x[at]));
    }
    A total = 0;  // a NaN or +inf makes the total and the row NaN
    for (std::int64_t at = first; at < last; at += step) {
      total += std::exp(scale * A(x[at]) - largest);
    }
    for (std::int64_t at = first; at < last; at += step) {
      y[at] = T(std::exp(scale * A(x[at]) - largest) / total);
    }
  });
}

// See kernels/ref/softmax.cpp for the derivation.
template <typename T>
void edge_softmax_backward_of(const EdgeSoftmaxBackward::Args& args) {
  using A = Accumulator<T>;
  const T* dy = args.dy.as<const T>();
  const T* y = args.y.as<const T>();
  for_each_edge_row(args.layout, [&](std::int64_t first, std::int64_t last,
                                     std::int64_t step) {
    A dot = 0;
    for (std::int64_t at = first; at < last; at += step) {
      dot += A(dy[at]) * A(y[at]);
    }
    for (std::int64_t at = first; at < last; at += step) {
      args.dx.as<T>()[at] = T(A(args.scale) * A(y[at]) * (A(dy[at]) - dot));
    }
  });
}

template <typename T>
void edge_pair_sum_of(const EdgePairSum::Args& args) {
  using A = Accumulator<T>;
  const std::int64_t width = args.y.dim(1);
  const T* u = args.u.as<const T>();
  const T* v = args.v.as<const T>();
  for_each_edge(args.layout,
                [&](std::int64_t e, std::int64_t i, std::int64_t j) {
                  for (std::int64_t c = 0; c < width; ++c) {
                    args.y.as<T>()[e * width + c] =
                        T(A(u[i * width + c]) + A(v[j * width + c]));
                  }
                });
}

template <typename T>
void edge_pair_sum_backward_of(const EdgePairSumBackward::Args& args) {
  if (args.du.defined()) {
    edge_row_sums<T, true>(args.dy, args.du, args.layout);
  }
  if (args.dv.defined()) {
    edge_row_sums<T, false>(args.dy, args.dv, args.layout);
  }
}

template <typename T>
void edge_scores_of(const EdgeScores::Args& args) {
  edge_products<T>(args.q, args.k, args.scores, args.scale, args.layout);
}

template <typename T>
void edge_scores_backward_of(const EdgeScoresBackward::Args& args) {
  if (args.dq.defined()) {
    edge_sums<T, true>(args.dscores, args.k, args.dq, args.scale, args.layout);
  }
  if (args.dk.defined()) {
    edge_sums<T, false>(args.dscores, args.q, args.dk, args.scale, args.layout);
  }
}

template <typename T>
void edge_context_of(const EdgeContext::Args& args) {
  edge_sums<T, true>(args.p, args.v, args.y, 1.0, args.layout);
}

template <typename T>
void edge_context_backward_of(const EdgeContextBackward::Args& args) {
  if (args.dp.defined()) {
    edge_products<T>(args.dy, args.v, args.dp, 1.0, args.layout);
  }
  if (args.dv.defined()) {
    edge_sums<T, false>(args.p, args.dy, args.dv, 1.0, args.layout);
  }
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
