// Reference for the sums of query and key vectors, and their gradients.
#include <algorithm>
#include <vector>

#include "kernels/pair_sum.h"
#include "kernels/ref/run.h"

namespace ea::ref {

namespace {

// Calls fn(y, u, v) for each cell, in map order: y, u and v are the first
// elements of its vectors.
template <typename Fn>
void for_each_pair(const MapLayout& layout, std::int64_t width, Fn&& fn) {
  std::int64_t y = 0;
  for (std::int64_t b = 0; b < layout.sequences; ++b) {
    for (std::int64_t h = 0; h < layout.heads; ++h) {
      for (std::int64_t i = 0; i < layout.n_q(b); ++i) {
        const std::int64_t u = (layout.q_offsets[b] + i) * layout.heads + h;
        for (std::int64_t j = 0; j < layout.n_k(b); ++j, y += width) {
          const std::int64_t v = (layout.k_offsets[b] + j) * layout.heads + h;
          fn(y, u * width, v * width);
        }
      }
    }
  }
}

// y = u + v is linear with one 1 per cell for u and for v, so the transposes
// add the gradient of each cell to its query and to its key.
template <typename T, bool kQueries>
void sum_pairs(const PairSumBackward::Args& args, const TensorView& to) {
  using A = Accumulator<T>;
  const T* dy = args.dy.as<const T>();
  const std::int64_t width = to.dim(1) / args.layout.heads;
  std::vector<A> total(static_cast<std::size_t>(to.numel()));
  for_each_pair(args.layout, width,
                [&](std::int64_t y, std::int64_t u, std::int64_t v) {
                  A* sums = total.data() + (kQueries ? u : v);
                  for (std::int64_t e = 0; e < width; ++e) {
                    sums[e] += A(dy[y + e]);
                  }
                });
  std::transform(total.begin(), total.end(), to.as<T>(),
                 [](A sum) { return T(sum); });
}

template <typename T>
void pair_sum_of(const PairSum::Args& args) {
  using A = Accumulator<T>;
  const T* u = args.u.as<const T>();
  const T* v = args.v.as<const T>();
  T* y = args.y.as<T>();
  const std::int64_t width = args.u.dim(1) / args.layout.heads;
  for_each_pair(args.layout, width,
                [&](std::int64_t cell, std::int64_t query, std::int64_t key) {
                  for (std::int64_t e = 0; e < width; ++e) {
                    y[cell + e] = T(A(u[query + e]) + A(v[key + e]));
                  }
                });
}

template <typename T>
void pair_sum_backward_of(const PairSumBackward::Args& args) {
  if (args.du.defined()) sum_pairs<T, true>(args, args.du);
  if (args.dv.defined()) sum_pairs<T, false>(args, args.dv);
}

}  // namespace

EA_RUN_REF(PairSum, pair_sum_of, y)
EA_RUN_REF(PairSumBackward, pair_sum_backward_of, dy)

}  // namespace ea::ref
