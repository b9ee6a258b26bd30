// SIMD attention along the edges of a graph (kernels/edge_attention.h): jobs
// are runs of queries, or of keys, each of which sums over its own edges.
#include "kernels/edge_attention.h"
#include "kernels/cpu/simd/column_sums-inl.h"
#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/cpu/simd/math-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// Edges grouped by the rows of one side: row r has the edges first[r] ..
// first[r + 1], each with a row of the other side and an edge number.
struct Side {
  std::int64_t rows;
  const std::int64_t* first;
  const std::int64_t* others;
  const std::int64_t* order;  // null: an edge's number is its position

  EA_INLINE std::int64_t number(std::int64_t t) const {
    return order == nullptr ? t : order[t];
  }
};

EA_INLINE Side by_query(const EdgeLayout& layout) {
  return {layout.n_q(), layout.starts.as<const std::int64_t>(),
          layout.keys.as<const std::int64_t>(), nullptr};
}

EA_INLINE Side by_key(const EdgeLayout& layout) {
  return {layout.n_k(), layout.key_starts.as<const std::int64_t>(),
          layout.queries.as<const std::int64_t>(),
          layout.order.as<const std::int64_t>()};
}

// Calls fn(row, first, last) for each row. Jobs have about equal work if rows
// have about equally many edges. `work` is the work of one edge, in elements.
template <typename Fn>
void for_rows(const Side& side, std::int64_t edges, std::int64_t work,
              Fn&& fn) {
  if (side.rows == 0) return;
  const std::int64_t each = ceil_div(edges * work, side.rows) + work;
  parallel_chunks(side.rows, items_per_job(each),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t r = begin; r < end; ++r) {
                      fn(r, side.first[r], side.first[r + 1]);
                    }
                  });
}

// to[row, h] = scale sum of maps[e, h] x[other, h] over the row's edges.
template <typename T>
void weighted_sums(const Side& side, const TensorView& maps,
                   const TensorView& x, const TensorView& to, float scale,
                   std::int64_t heads, std::int64_t edges) {
  const std::int64_t width = to.shape[1], d = width / heads;
  for_rows(side, edges, width,
           [&](std::int64_t r, std::int64_t first, std::int64_t last) {
             for (std::int64_t h = 0; h < heads; ++h) {
               const T* const weights = maps.as<const T>() + h;
               const T* from = x.as<const T>() + h * d;
               store_sums(
                   d, scale, to.as<T>() + r * width + h * d,
                   [&](std::int64_t c, auto part, auto& sums) {
                     for (std::int64_t t = first; t < last; ++t) {
                       add_row(load_one(weights + side.number(t) * heads),
                               from + side.others[t] * width + c, part, sums);
                     }
                   });
             }
           });
}

// maps[e, h] = scale x[query, h] . y[key, h]
template <typename T>
void edge_products(const TensorView& x, const TensorView& y,
                   const TensorView& maps, float scale,
                   const EdgeLayout& layout) {
  const Side side = by_query(layout);
  const std::int64_t heads = layout.heads;
  const std::int64_t width = x.shape[1], d = width / heads;
  for_rows(side, layout.edges(), width,
           [&](std::int64_t r, std::int64_t first, std::int64_t last) {
             const T* const query = x.as<const T>() + r * width;
             for (std::int64_t t = first; t < last; ++t) {
               const T* const key = y.as<const T>() + side.others[t] * width;
               T* const out = maps.as<T>() + t * heads;
               for (std::int64_t h = 0; h < heads; ++h) {
                 const T* const u = query + h * d;
                 const T* const v = key + h * d;
                 const float dot = sum_over(d, [&](std::int64_t c, auto part) {
                   return load(u + c, part) * load(v + c, part);
                 });
                 store_one(out + h, scale * dot);
               }
             }
           });
}

// to[row, :] = sum of dy[e, :] over the row's edges.
template <typename T>
void row_sums(const Side& side, const TensorView& dy, const TensorView& to,
              std::int64_t edges) {
  const std::int64_t width = to.shape[1];
  for_rows(side, edges, width,
           [&](std::int64_t r, std::int64_t first, std::int64_t last) {
             T* const out = to.as<T>() + r * width;
             for_vectors(width, [&](std::int64_t c, auto part) {
               Vf sum = set(0.0f);
               for (std::int64_t t = first; t < last; ++t) {
                 const T* const row = dy.as<const T>() + side.number(t) * width;
                 sum += load(row + c, part);
               }
               store(out + c, sum, part);
             });
           });
}

template <typename T>
void pair_sum_of(const EdgePairSum::Args& args) {
  const Side side = by_query(args.layout);
  const std::int64_t width = args.y.shape[1];
  for_rows(side, args.layout.edges(), width,
           [&](std::int64_t r, std::int64_t first, std::int64_t last) {
             const T* const u = args.u.as<const T>() + r * width;
             for (std::int64_t t = first; t < last; ++t) {
               const T* const v = args.v.as<const T>() + side.others[t] * width;
               T* const y = args.y.as<T>() + t * width;
               for_vectors(width, [&](std::int64_t c, auto part) {
                 store(y + c, load(u + c, part) + load(v + c, part), part);
               });
             }
           });
}

template <typename T>
void pair_sum_backward_of(const EdgePairSumBackward::Args& args) {
  const std::int64_t edges = args.layout.edges();
  if (args.du.defined()) {
    row_sums<T>(by_query(args.layout), args.dy, args.du, edges);
  }
  if (args.dv.defined()) {
    row_sums<T>(by_key(args.layout), args.dy, args.dv, edges);
  }
}

// Vector lanes are heads; the rows of a query's edges are contiguous.
template <typename T>
void softmax_of(const EdgeSoftmax::Args& args) {
  const std::int64_t heads = args.layout.heads;
  const Vf scale = set(static_cast<float>(args.scale));
  for_rows(by_query(args.layout), args.layout.edges(), 4 * heads,
           [&](std::int64_t, std::int64_t first, std::int64_t last) {
             const T* const x = args.x.as<const T>() + first * heads;
             T* const y = args.y.as<T>() + first * heads;
             const std::int64_t n = last - first;
             for_vectors(heads, [&](std::int64_t h, auto part) {
               Vf top = set(-__builtin_inff());
               for (std::int64_t e = 0; e < n; ++e) {
                 top = max(load(x + e * heads + h, part) * scale, top);
               }
               const auto term = [&](std::int64_t e) {
                 return exp(load(x + e * heads + h, part) * scale - top);
               };
               Vf total = set(0.0f);
               for (std::int64_t e = 0; e < n; ++e) total += term(e);
               const Vf inverse = set(1.0f) / total;
               for (std::int64_t e = 0; e < n; ++e) {
                 store(y + e * heads + h, term(e) * inverse, part);
               }
             });
           });
}

template <typename T>
void softmax_backward_of(const EdgeSoftmaxBackward::Args& args) {
  const std::int64_t heads = args.layout.heads;
  const Vf scale = set(static_cast<float>(args.scale));
  for_rows(by_query(args.layout), args.layout.edges(), 4 * heads,
           [&](std::int64_t, std::int64_t first, std::int64_t last) {
             const T* const dy = args.dy.as<const T>() + first * heads;
             const T* const y = args.y.as<const T>() + first * heads;
             T* const dx = args.dx.as<T>() + first * heads;
             const std::int64_t n = last - first;
             for_vectors(heads, [&](std::int64_t h, auto part) {
               Vf dot = set(0.0f);
               for (std::int64_t e = 0; e < n; ++e) {
                 const std::int64_t at = e * heads + h;
                 dot = fma(load(dy + at, part), load(y + at, part), dot);
               }
               for (std::int64_t e = 0; e < n; ++e) {
                 const std::int64_t at = e * heads + h;
                 const Vf g = load(dy + at, part) - dot;
                 store(dx + at, scale * load(y + at, part) * g, part);
               }
             });
           });
}

template <typename T>
void scores_of(const EdgeScores::Args& args) {
  edge_products<T>(args.q, args.k, args.scores, static_cast<float>(args.scale),
                   args.layout);
}

template <typename T>
void scores_backward_of(const EdgeScoresBackward::Args& args) {
  const EdgeLayout& layout = args.layout;
  const float scale = static_cast<float>(args.scale);
  if (args.dq.defined()) {
    weighted_sums<T>(by_query(layout), args.dscores, args.k, args.dq, scale,
                     layout.heads, layout.edges());
  }
  if (args.dk.defined()) {
    weighted_sums<T>(by_key(layout), args.dscores, args.q, args.dk, scale,
                     layout.heads, layout.edges());
  }
}

template <typename T>
void context_of(const EdgeContext::Args& args) {
  weighted_sums<T>(by_query(args.layout), args.p, args.v, args.y, 1.0f,
                   args.layout.heads, args.layout.edges());
}

template <typename T>
void context_backward_of(const EdgeContextBackward::Args& args) {
  const EdgeLayout& layout = args.layout;
  if (args.dp.defined()) {
    edge_products<T>(args.dy, args.v, args.dp, 1.0f, layout);
  }
  if (args.dv.defined()) {
    weighted_sums<T>(by_key(layout), args.p, args.dy, args.dv, 1.0f,
                     layout.heads, layout.edges());
  }
}

}  // namespace

EA_RUN(EdgePairSum, pair_sum_of, y)
EA_RUN(EdgePairSumBackward, pair_sum_backward_of, dy)
EA_RUN(EdgeScores, scores_of, q)
EA_RUN(EdgeScoresBackward, scores_backward_of, q)
EA_RUN(EdgeSoftmax, softmax_of, x)
EA_RUN(EdgeSoftmaxBackward, softmax_backward_of, y)
EA_RUN(EdgeContext, context_of, p)
EA_RUN(EdgeContextBackward, context_backward_of, p)

}  // namespace ea::simd::EA_TARGET
