// Sums of query and key vectors for every cell: one warp per row of a map; for
// the gradients, one warp per token and head.
#include "kernels/cuda/run.h"
#include "kernels/cuda/warp_rows.cuh"
#include "kernels/pair_sum.h"

namespace ea::cuda {

namespace {

// The lanes share the elements of all vectors in a row of cells.
template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    forward_kernel(MapRows maps, const T* u, const T* v, T* y,
                   std::int64_t width) {
  const std::int64_t row = warp_row();
  if (row >= maps.rows()) return;
  const TokenRow at = token_row(maps, maps.q, row);
  const int b = at.sequence;
  const std::int64_t elements = (maps.k[b + 1] - maps.k[b]) * width;
  u += ((maps.q[b] + at.token) * maps.heads + at.head) * width;
  v += (maps.k[b] * maps.heads + at.head) * width;
  y += maps.cell(b, at.head, at.token) * width;
  for (std::int64_t t = warp_lane(); t < elements; t += kWarp) {
    const std::int64_t j = t / width, e = t % width;
    y[t] = T(static_cast<float>(u[e]) +
             static_cast<float>(v[j * maps.heads * width + e]));
  }
}

// Sums over the keys of each query if kQueries, else over the queries of each
// key. Each lane accumulates one element of the vector, with its terms in
// order.
template <typename T, bool kQueries>
__global__ void __launch_bounds__(kRowThreads)
    backward_kernel(MapRows maps, const T* dy, T* to, std::int64_t width) {
  const std::int64_t row = warp_row();
  if (row >= (kQueries ? maps.rows() : maps.key_rows())) return;
  const std::int64_t* const tokens = kQueries ? maps.q : maps.k;
  const TokenRow at = token_row(maps, tokens, row);
  const int b = at.sequence;
  const std::int64_t keys = maps.k[b + 1] - maps.k[b];
  const std::int64_t terms = kQueries ? keys : maps.q[b + 1] - maps.q[b];
  const std::int64_t step = kQueries ? width : keys * width;
  dy += kQueries ? maps.cell(b, at.head, at.token) * width
                 : (maps.cell(b, at.head, 0) + at.token) * width;
  to += ((tokens[b] + at.token) * maps.heads + at.head) * width;
  for (std::int64_t e = warp_lane(); e < width; e += kWarp) {
    float total = 0.0f;
    for (std::int64_t k = 0; k < terms; ++k) {
      total += static_cast<float>(dy[k * step + e]);
    }
    to[e] = T(total);
  }
}

template <typename T, bool kQueries>
void sum_pairs(const PairSumBackward::Args& args, const TensorView& to) {
  const std::int64_t width = to.dim(1) / args.layout.heads;
  for (std::int64_t b = 0; b < args.layout.sequences; b += MapRows::kMost) {
    const MapRows maps = map_rows_from(args.layout, b);
    const std::int64_t rows = kQueries ? maps.rows() : maps.key_rows();
    launch_rows(rows, backward_kernel<T, kQueries>, maps, args.dy.as<const T>(),
                to.as<T>(), width);
  }
}

template <typename T>
void pair_sum_of(const PairSum::Args& args) {
  launch_map_rows(args.layout, forward_kernel<T>, args.u.as<const T>(),
                  args.v.as<const T>(), args.y.as<T>(),
                  args.u.dim(1) / args.layout.heads);
}

template <typename T>
void pair_sum_backward_of(const PairSumBackward::Args& args) {
  if (args.du.defined()) sum_pairs<T, true>(args, args.du);
  if (args.dv.defined()) sum_pairs<T, false>(args, args.dv);
}

}  // namespace

EA_RUN_CUDA(PairSum, pair_sum_of, y)
EA_RUN_CUDA(PairSumBackward, pair_sum_backward_of, dy)

}  // namespace ea::cuda
