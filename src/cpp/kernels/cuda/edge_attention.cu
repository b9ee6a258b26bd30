// Attention along the edges of a graph: one warp per query or per key reduces
// over the edges of its row in order.
#include "kernels/cuda/run.h"
#include "kernels/cuda/warp_rows.cuh"
#include "kernels/edge_attention.h"

namespace ea::cuda {

namespace {

// to[r, c] = scale sum of maps[e, c / d] x[other, c]; each lane computes
// columns c.
template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    edge_sums_kernel(EdgeSide side, const T* maps, const T* x, T* to,
                     std::int64_t heads, std::int64_t d, float scale) {
  const std::int64_t r = warp_row();
  if (r >= side.rows) return;
  const std::int64_t width = heads * d;
  for (std::int64_t c = warp_lane(); c < width; c += kWarp) {
    const std::int64_t h = c / d;
    float total = 0.0f;
    for (std::int64_t t = side.first[r]; t < side.first[r + 1]; ++t) {
      total += static_cast<float>(maps[side.number(t) * heads + h]) *
               static_cast<float>(x[side.others[t] * width + c]);
    }
    to[r * width + c] = T(scale * total);
  }
}

// maps[e, h] = scale x[query, h] . y[key, h]; a lane computes whole products.
template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    edge_products_kernel(EdgeSide side, const T* x, const T* y, T* maps,
                         std::int64_t heads, std::int64_t d, float scale) {
  const std::int64_t r = warp_row();
  if (r >= side.rows) return;
  const std::int64_t begin = side.first[r] * heads;
  const std::int64_t end = side.first[r + 1] * heads;
  for (std::int64_t cell = begin + warp_lane(); cell < end; cell += kWarp) {
    const std::int64_t h = cell % heads;
    const T* const u = x + (r * heads + h) * d;
    const T* const v = y + (side.others[cell / heads] * heads + h) * d;
    float total = 0.0f;
    for (std::int64_t c = 0; c < d; ++c) {
      total += static_cast<float>(u[c]) * static_cast<float>(v[c]);
    }
    maps[cell] = T(scale * total);
  }
}

template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    edge_pair_sum_kernel(EdgeSide side, const T* u, const T* v, T* y,
                         std::int64_t width) {
  const std::int64_t r = warp_row();
  if (r >= side.rows) return;
  const std::int64_t begin = side.first[r] * width;
  const std::int64_t end = side.first[r + 1] * width;
  for (std::int64_t at = begin + warp_lane(); at < end; at += kWarp) {
    const std::int64_t c = at % width;
    y[at] = T(static_cast<float>(u[r * width + c]) +
              static_cast<float>(v[side.others[at / width] * width + c]));
  }
}

// to[r, :] = sum of dy[e, :] over the row's edges.
template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    edge_row_sums_kernel(EdgeSide side, const T* dy, T* to,
                         std::int64_t width) {
  const std::int64_t r = warp_row();
  if (r >= side.rows) return;
  for (std::int64_t c = warp_lane(); c < width; c += kWarp) {
    float total = 0.0f;
    for (std::int64_t t = side.first[r]; t < side.first[r + 1]; ++t) {
      total += static_cast<float>(dy[side.number(t) * width + c]);
    }
    to[r * width + c] = T(total);
  }
}

// Each lane processes whole heads, whose cells are `heads` apart.
template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    edge_softmax_kernel(EdgeSide side, const T* x, T* y, std::int64_t heads,
                        float scale) {
  const std::int64_t r = warp_row();
  if (r >= side.rows) return;
  const std::int64_t begin = side.first[r] * heads;
  const std::int64_t end = side.first[r + 1] * heads;
  for (std::int64_t h = warp_lane(); h < heads; h += kWarp) {
    float largest = -INFINITY;
    for (std::int64_t at = begin + h; at < end; at += heads) {
      largest = fmaxf(largest, scale * static_cast<float>(x[at]));
    }
    float total = 0.0f;
    for (std::int64_t at = begin + h; at < end; at += heads) {
      total += expf(scale * static_cast<float>(x[at]) - largest);
    }
    const float inverse = 1.0f / total;
    for (std::int64_t at = begin + h; at < end; at += heads) {
      y[at] = T(expf(scale * static_cast<float>(x[at]) - largest) * inverse);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    edge_softmax_backward_kernel(EdgeSide side, const T* dy, const T* y, T* dx,
                                 std::int64_t heads, float scale) {
  const std::int64_t r = warp_row();
  if (r >= side.rows) return;
  const std::int64_t begin = side.first[r] * heads;
  const std::int64_t end = side.first[r + 1] * heads;
  for (std::int64_t h = warp_lane(); h < heads; h += kWarp) {
    float dot = 0.0f;
    for (std::int64_t at = begin + h; at < end; at += heads) {
      dot += static_cast<float>(dy[at]) * static_cast<float>(y[at]);
    }
    for (std::int64_t at = begin + h; at < end; at += heads) {
      dx[at] = T(scale * static_cast<float>(y[at]) *
                 (static_cast<float>(dy[at]) - dot));
    }
  }
}

// Launches kernel(side, args...) on all rows of a side.
template <typename Kernel, typename... Args>
void launch_edges(const EdgeSide& side, Kernel kernel, const Args&... args) {
  launch_rows(side.rows, kernel, side, args...);
}

template <typename T>
void edge_products_of(const EdgeProducts::Args& args) {
  launch_edges(side_of<true>(args.layout), edge_products_kernel<T>,
               args.x.as<const T>(), args.y.as<const T>(), args.maps.as<T>(),
               args.layout.heads, args.x.dim(1) / args.layout.heads,
               static_cast<float>(args.scale));
}

template <typename T>
void edge_sums_of(const EdgeSums::Args& args) {
  launch_edges(args.of_queries ? side_of<true>(args.layout)
                               : side_of<false>(args.layout),
               edge_sums_kernel<T>, args.maps.as<const T>(),
               args.x.as<const T>(), args.to.as<T>(), args.layout.heads,
               args.to.dim(1) / args.layout.heads,
               static_cast<float>(args.scale));
}

template <typename T, bool kQueries>
void edge_row_sums(const TensorView& dy, const TensorView& to,
                   const EdgeLayout& layout) {
  if (!to.defined()) return;
  launch_edges(side_of<kQueries>(layout), edge_row_sums_kernel<T>,
               dy.as<const T>(), to.as<T>(), to.dim(1));
}

template <typename T>
void edge_pair_sum_of(const EdgePairSum::Args& args) {
  launch_edges(side_of<true>(args.layout), edge_pair_sum_kernel<T>,
               args.u.as<const T>(), args.v.as<const T>(), args.y.as<T>(),
               args.y.dim(1));
}

template <typename T>
void edge_pair_sum_backward_of(const EdgePairSumBackward::Args& args) {
  edge_row_sums<T, true>(args.dy, args.du, args.layout);
  edge_row_sums<T, false>(args.dy, args.dv, args.layout);
}

template <typename T>
void edge_softmax_of(const EdgeSoftmax::Args& args) {
  launch_edges(side_of<true>(args.layout), edge_softmax_kernel<T>,
               args.x.as<const T>(), args.y.as<T>(), args.layout.heads,
               static_cast<float>(args.scale));
}

template <typename T>
void edge_softmax_backward_of(const EdgeSoftmaxBackward::Args& args) {
  launch_edges(side_of<true>(args.layout), edge_softmax_backward_kernel<T>,
               args.dy.as<const T>(), args.y.as<const T>(), args.dx.as<T>(),
               args.layout.heads, static_cast<float>(args.scale));
}

}  // namespace

EA_RUN_CUDA(EdgePairSum, edge_pair_sum_of, y)
EA_RUN_CUDA(EdgePairSumBackward, edge_pair_sum_backward_of, dy)
EA_RUN_CUDA(EdgeProducts, edge_products_of, x)
EA_RUN_CUDA(EdgeSums, edge_sums_of, maps)
EA_RUN_CUDA(EdgeSoftmax, edge_softmax_of, x)
EA_RUN_CUDA(EdgeSoftmaxBackward, edge_softmax_backward_of, y)

}  // namespace ea::cuda
