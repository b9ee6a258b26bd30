// Masked softmax over the keys of packed attention maps: one warp per row.
#include "kernels/cuda/run.h"
#include "kernels/cuda/vec.cuh"
#include "kernels/cuda/warp_rows.cuh"
#include "kernels/softmax.h"

namespace ea::cuda {

namespace {

// A warp processes the keys of its row, 32 at a time, in three passes; after
// the first they are in cache. The lanes of a warp share a row, so all of them
// return early or none does.
template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    forward_kernel(MapRows maps, const T* x, T* y, float scale) {
  const std::int64_t row = warp_row();
  if (row >= maps.rows()) return;
  const MapRow at = maps.find(row);
  const int lane = warp_lane();
  x += at.begin;
  y += at.begin;
  float largest = -INFINITY;
  for (std::int64_t j = lane; j < at.columns; j += kWarp) {
    if (!at.exists(j)) continue;
    largest = fmaxf(largest, scale * static_cast<float>(x[j]));
  }
  largest = warp_reduce(largest, Largest{});
  // A NaN or +inf makes one term NaN, hence the sum and the whole row.
  float total = 0.0f;
  for (std::int64_t j = lane; j < at.columns; j += kWarp) {
    if (!at.exists(j)) continue;
    total += expf(scale * static_cast<float>(x[j]) - largest);
  }
  const float inverse = 1.0f / warp_reduce(total);
  for (std::int64_t j = lane; j < at.keys; j += kWarp) {
    const float e = expf(scale * static_cast<float>(x[j]) - largest);
    y[j] = T(at.exists(j) ? e * inverse : 0.0f);
  }
}

// dx_i = scale y_i (dy_i - sum_j dy_j y_j): kernels/ref/cells.h derives it.
template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    backward_kernel(MapRows maps, const T* dy, const T* y, T* dx, float scale) {
  const std::int64_t row = warp_row();
  if (row >= maps.rows()) return;
  const MapRow at = maps.find(row);
  const int lane = warp_lane();
  dy += at.begin;
  y += at.begin;
  dx += at.begin;
  float dot = 0.0f;
  for (std::int64_t j = lane; j < at.columns; j += kWarp) {
    if (at.exists(j))
      dot += static_cast<float>(dy[j]) * static_cast<float>(y[j]);
  }
  dot = warp_reduce(dot);
  for (std::int64_t j = lane; j < at.keys; j += kWarp) {
    const float g =
        scale * static_cast<float>(y[j]) * (static_cast<float>(dy[j]) - dot);
    dx[j] = T(at.exists(j) ? g : 0.0f);
  }
}

template <typename T>
void softmax_forward_of(const SoftmaxForward::Args& args) {
  launch_map_rows(args.layout, forward_kernel<T>, args.x.as<const T>(),
                  args.y.as<T>(), static_cast<float>(args.scale));
}

template <typename T>
void softmax_backward_of(const SoftmaxBackward::Args& args) {
  launch_map_rows(args.layout, backward_kernel<T>, args.dy.as<const T>(),
                  args.y.as<const T>(), args.dx.as<T>(),
                  static_cast<float>(args.scale));
}

}  // namespace

EA_RUN_CUDA(SoftmaxForward, softmax_forward_of, x)
EA_RUN_CUDA(SoftmaxBackward, softmax_backward_of, y)

}  // namespace ea::cuda
