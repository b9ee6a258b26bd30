// SIMD attention along the edges of a graph (kernels/edge_attention.h): jobs
// are runs of queries, or of keys, each of which sums over its own edges.
#include "kernels/edge_attention.h"
#include "kernels/cpu/simd/column_sums-inl.h"
#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/cpu/simd/math-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// Calls fn(row, first, last) for each row. Jobs have about equal work if rows
// have about equally many edges. `work` is the work of one edge, in elements.
template <typename Fn>
void for_rows(const EdgeSide& side, std::int64_t edges, std::int64_t work,
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
template <typename T, bool kQueries>
void edge_sums(const EdgeSums::Args& args) {
  const EdgeSide side = side_of<kQueries>(args.layout);
  const std::int64_t heads = args.layout.heads;
  const std::int64_t width = args.to.shape[1], d = width / heads;
  for_rows(side, args.layout.edges(), width,
           [&](std::int64_t r, std::int64_t first, std::int64_t last) {
             for (std::int64_t h = 0; h < heads; ++h) {
               const T* const weights = args.maps.as<const T>() + h;
               const T* const from = args.x.as<const T>() + h * d;
               store_sums(
                   d, static_cast<float>(args.scale),
                   args.to.as<T>() + r * width + h * d,
                   [&](std::int64_t c, auto part, auto& sums) {
                     for (std::int64_t t = first; t < last; ++t) {
                       add_row(load_one(weights + side.number(t) * heads),
                               from + side.others[t] * width + c, part, sums);
                     }
                   });
             }
           });
}

template <typename T>
void sums_of(const EdgeSums::Args& args) {
  args.of_queries ? edge_sums<T, true>(args) : edge_sums<T, false>(args);
}

// maps[e, h] = scale x[query, h] . y[key, h]
template <typename T>
void products_of(const EdgeProducts::Args& args) {
  const EdgeSide side = side_of<true>(args.layout);
  const std::int64_t heads = args.layout.heads;
  const std::int64_t width = args.x.shape[1], d = width / heads;
  for_rows(side, args.layout.edges(), width,
           [&](std::int64_t r, std::int64_t first, std::int64_t last) {
             const T* const query = args.x.as<const T>() + r * width;
             for (std::int64_t t = first; t < last; ++t) {
               const T* const key =
                   args.y.as<const T>() + side.others[t] * width;
               T* const out = args.maps.as<T>() + t * heads;
               for (std::int64_t h = 0; h < heads; ++h) {
                 const T* const u = query + h * d;
                 const T* const v = key + h * d;
                 const float dot = sum_over(d, [&](std::int64_t c, auto part) {
                   return load(u + c, part) * load(v + c, part);
                 });
                 store_one(out + h, static_cast<float>(args.scale) * dot);
               }
             }
           });
}

// to[row, :] = sum of dy[e, :] over the row's edges.
template <typename T, bool kQueries>
void edge_row_sums(const TensorView& dy, const TensorView& to,
                   const EdgeLayout& layout) {
  if (!to.defined()) return;
  const EdgeSide side = side_of<kQueries>(layout);
  const std::int64_t width = to.shape[1];
  for_rows(side, layout.edges(), width,
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
  const EdgeSide side = side_of<true>(args.layout);
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
  edge_row_sums<T, true>(args.dy, args.du, args.layout);
  edge_row_sums<T, false>(args.dy, args.dv, args.layout);
}

// Vector lanes are heads; the rows of a query's edges are contiguous.
template <typename T>
void softmax_of(const EdgeSoftmax::Args& args) {
  const std::int64_t heads = args.layout.heads;
  const Vf scale = set(static_cast<float>(args.scale));
  for_rows(side_of<true>(args.layout), args.layout.edges(), 4 * heads,
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
  for_rows(side_of<true>(args.layout), args.layout.edges(), 4 * heads,
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

}  // namespace

EA_RUN(EdgePairSum, pair_sum_of, y)
EA_RUN(EdgePairSumBackward, pair_sum_backward_of, dy)
EA_RUN(EdgeProducts, products_of, x)
EA_RUN(EdgeSums, sums_of, maps)
EA_RUN(EdgeSoftmax, softmax_of, x)
EA_RUN(EdgeSoftmaxBackward, softmax_backward_of, y)

}  // namespace ea::simd::EA_TARGET
