// Attention along the edges of a graph: one warp per query or per key reduces
// over the edges of its row in order.
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/run.h"
#include "kernels/edge_attention.h"

namespace ea::cuda {

namespace {

constexpr int kThreads = 128;
constexpr int kRows = kThreads / kWarp;  // per block

// Edges of the rows on one side: row r has edges first[r] .. first[r + 1], each
// with a row of the other side and an index.
struct EdgeSide {
  std::int64_t rows;
  const std::int64_t* first;
  const std::int64_t* others;
  const std::int64_t* order;  // null: an edge's index is its position

  __device__ std::int64_t number(std::int64_t t) const {
    return order == nullptr ? t : order[t];
  }
};

EdgeSide by_query(const EdgeLayout& layout) {
  return {layout.n_q(), layout.starts.as<const std::int64_t>(),
          layout.keys.as<const std::int64_t>(), nullptr};
}

EdgeSide by_key(const EdgeLayout& layout) {
  return {layout.n_k(), layout.key_starts.as<const std::int64_t>(),
          layout.queries.as<const std::int64_t>(),
          layout.order.as<const std::int64_t>()};
}

__device__ inline std::int64_t edge_row() {
  return std::int64_t{blockIdx.x} * kRows + threadIdx.x / kWarp;
}

__device__ inline int edge_lane() {
  return static_cast<int>(threadIdx.x) % kWarp;
}

// to[r, c] = scale sum of maps[e, c / d] x[other, c]; each lane computes
// columns c.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    edge_sums_kernel(EdgeSide side, const T* maps, const T* x, T* to,
                     std::int64_t heads, std::int64_t d, float scale) {
  const std::int64_t r = edge_row();
  if (r >= side.rows) return;
  const std::int64_t width = heads * d;
  for (std::int64_t c = edge_lane(); c < width; c += kWarp) {
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
__global__ void __launch_bounds__(kThreads)
    edge_products_kernel(EdgeSide side, const T* x, const T* y, T* maps,
                         std::int64_t heads, std::int64_t d, float scale) {
  const std::int64_t r = edge_row();
  if (r >= side.rows) return;
  const std::int64_t begin = side.first[r] * heads;
  const std::int64_t end = side.first[r + 1] * heads;
  for (std::int64_t cell = begin + edge_lane(); cell < end; cell += kWarp) {
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
__global__ void __launch_bounds__(kThreads)
    edge_pair_sum_kernel(EdgeSide side, const T* u, const T* v, T* y,
                         std::int64_t width) {
  const std::int64_t r = edge_row();
  if (r >= side.rows) return;
  const std::int64_t begin = side.first[r] * width;
  const std::int64_t end = side.first[r + 1] * width;
  for (std::int64_t at = begin + edge_lane(); at < end; at += kWarp) {
    const std::int64_t c = at % width;
    y[at] = T(static_cast<float>(u[r * width + c]) +
              static_cast<float>(v[side.others[at / width] * width + c]));
  }
}

// to[r, :] = sum of dy[e, :] over the row's edges.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    edge_row_sums_kernel(EdgeSide side, const T* dy, T* to,
                         std::int64_t width) {
  const std::int64_t r = edge_row();
  if (r >= side.rows) return;
  for (std::int64_t c = edge_lane(); c < width; c += kWarp) {
    float total = 0.0f;
    for (std::int64_t t = side.first[r]; t < side.first[r + 1]; ++t) {
      total += static_cast<float>(dy[side.number(t) * width + c]);
    }
    to[r * width + c] = T(total);
  }
}

// Each lane processes whole heads, whose cells are `heads` apart.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    edge_softmax_kernel(EdgeSide side, const T* x, T* y, std::int64_t heads,
                        float scale) {
  const std::int64_t r = edge_row();
  if (r >= side.rows) return;
  const std::int64_t begin = side.first[r] * heads;
  const std::int64_t end = side.first[r + 1] * heads;
  for (std::int64_t h = edge_lane(); h < heads; h += kWarp) {
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
__global__ void __launch_bounds__(kThreads)
    edge_softmax_backward_kernel(EdgeSide side, const T* dy, const T* y, T* dx,
                                 std::int64_t heads, float scale) {
  const std::int64_t r = edge_row();
  if (r >= side.rows) return;
  const std::int64_t begin = side.first[r] * heads;
  const std::int64_t end = side.first[r + 1] * heads;
  for (std::int64_t h = edge_lane(); h < heads; h += kWarp) {
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
  launch(current_stream(), blocks_for(side.rows, kRows), kThreads, 0, kernel,
         side, args...);
}

template <typename T>
void edge_products(const TensorView& x, const TensorView& y,
                   const TensorView& maps, double scale,
                   const EdgeLayout& layout) {
  launch_edges(by_query(layout), edge_products_kernel<T>, x.as<const T>(),
               y.as<const T>(), maps.as<T>(), layout.heads,
               x.dim(1) / layout.heads, static_cast<float>(scale));
}

template <typename T>
void edge_sums(const EdgeSide& side, const TensorView& maps,
               const TensorView& x, const TensorView& to, double scale,
               std::int64_t heads) {
  launch_edges(side, edge_sums_kernel<T>, maps.as<const T>(), x.as<const T>(),
               to.as<T>(), heads, to.dim(1) / heads, static_cast<float>(scale));
}

template <typename T>
void edge_row_sums(const EdgeSide& side, const TensorView& dy,
                   const TensorView& to) {
  launch_edges(side, edge_row_sums_kernel<T>, dy.as<const T>(), to.as<T>(),
               to.dim(1));
}

template <typename T>
void edge_pair_sum_of(const EdgePairSum::Args& args) {
  launch_edges(by_query(args.layout), edge_pair_sum_kernel<T>,
               args.u.as<const T>(), args.v.as<const T>(), args.y.as<T>(),
               args.y.dim(1));
}

template <typename T>
void edge_pair_sum_backward_of(const EdgePairSumBackward::Args& args) {
  if (args.du.defined()) {
    edge_row_sums<T>(by_query(args.layout), args.dy, args.du);
  }
  if (args.dv.defined()) {
    edge_row_sums<T>(by_key(args.layout), args.dy, args.dv);
  }
}

template <typename T>
void edge_scores_of(const EdgeScores::Args& args) {
  edge_products<T>(args.q, args.k, args.scores, args.scale, args.layout);
}

template <typename T>
void edge_scores_backward_of(const EdgeScoresBackward::Args& args) {
  const EdgeLayout& layout = args.layout;
  if (args.dq.defined()) {
    edge_sums<T>(by_query(layout), args.dscores, args.k, args.dq, args.scale,
                 layout.heads);
  }
  if (args.dk.defined()) {
    edge_sums<T>(by_key(layout), args.dscores, args.q, args.dk, args.scale,
                 layout.heads);
  }
}

template <typename T>
void edge_softmax_of(const EdgeSoftmax::Args& args) {
  launch_edges(by_query(args.layout), edge_softmax_kernel<T>,
               args.x.as<const T>(), args.y.as<T>(), args.layout.heads,
               static_cast<float>(args.scale));
}

template <typename T>
void edge_softmax_backward_of(const EdgeSoftmaxBackward::Args& args) {
  launch_edges(by_query(args.layout), edge_softmax_backward_kernel<T>,
               args.dy.as<const T>(), args.y.as<const T>(), args.dx.as<T>(),
               args.layout.heads, static_cast<float>(args.scale));
}

template <typename T>
void edge_context_of(const EdgeContext::Args& args) {
  edge_sums<T>(by_query(args.layout), args.p, args.v, args.y, 1.0,
               args.layout.heads);
}

template <typename T>
void edge_context_backward_of(const EdgeContextBackward::Args& args) {
  if (args.dp.defined()) {
    edge_products<T>(args.dy, args.v, args.dp, 1.0, args.layout);
  }
  if (args.dv.defined()) {
    edge_sums<T>(by_key(args.layout), args.p, args.dy, args.dv, 1.0,
                 args.layout.heads);
  }
}

}  // namespace

EA_RUN_CUDA(EdgePairSum, edge_pair_sum_of, y)
EA_RUN_CUDA(EdgePairSumBackward, edge_pair_sum_backward_of, dy)
EA_RUN_CUDA(EdgeScores, edge_scores_of, q)
EA_RUN_CUDA(EdgeScoresBackward, edge_scores_backward_of, q)
EA_RUN_CUDA(EdgeSoftmax, edge_softmax_of, x)
EA_RUN_CUDA(EdgeSoftmaxBackward, edge_softmax_backward_of, y)
EA_RUN_CUDA(EdgeContext, edge_context_of, p)
EA_RUN_CUDA(EdgeContextBackward, edge_context_backward_of, p)

}  // namespace ea::cuda
