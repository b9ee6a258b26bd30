// Image pooling from global memory: one thread per pixel and channel.
#include "kernels/pool2d.h"

#include "kernels/cuda/run.h"
#include "kernels/cuda/vec.cuh"

namespace ea::cuda {

namespace {

constexpr int kThreads = 256;

struct PoolSizes {
  std::int64_t images, height, width, channels, out_height, out_width;
  PoolAxis rows, columns;

  EA_HOST_DEVICE std::int64_t results() const {
    return images * out_height * out_width * channels;
  }
  EA_HOST_DEVICE std::int64_t elements() const {
    return images * height * width * channels;
  }
  // Calls fn(element) for each cell of window (i, j) inside an image.
  template <typename Fn>
  __device__ void each_cell(std::int64_t n, std::int64_t i, std::int64_t j,
                            std::int64_t c, Fn&& fn) const {
    const PoolSpan down = rows.span(i), across = columns.span(j);
    for (std::int64_t h = down.begin; h < down.end; h += down.step) {
      for (std::int64_t w = across.begin; w < across.end; w += across.step) {
        fn(((n * height + h) * width + w) * channels + c);
      }
    }
  }
  // Calls fn(i, j) for each window that contains pixel (h, w), in order.
  template <typename Fn>
  __device__ void each_window(std::int64_t h, std::int64_t w, Fn&& fn) const {
    const PoolAxis::Run down = rows.windows_of(h);
    const PoolAxis::Run across = columns.windows_of(w);
    for (std::int64_t i = down.first; i <= down.last; ++i) {
      if (!rows.span(i).holds(h)) continue;
      for (std::int64_t j = across.first; j <= across.last; ++j) {
        if (columns.span(j).holds(w)) fn(i, j);
      }
    }
  }
  // Returns 1 / the number of cells that a mean counts.
  __device__ float part_of_mean(bool padded, std::int64_t i,
                                std::int64_t j) const {
    const PoolSpan down = rows.span(i), across = columns.span(j);
    return 1.0f / static_cast<float>(padded ? down.all * across.all
                                            : down.count() * across.count());
  }
};

PoolSizes pool_sizes(const TensorView& x, const TensorView& y,
                     const PoolWindows& windows) {
  return {x.dim(0),
          x.dim(1),
          x.dim(2),
          x.dim(3),
          y.dim(1),
          y.dim(2),
          windows.rows(x.dim(1), y.dim(1)),
          windows.columns(x.dim(2), y.dim(2))};
}

// Returns the index of the greatest element of a window, or -1.
template <typename T>
__device__ inline std::int64_t greatest(const PoolSizes& s, const T* x,
                                        std::int64_t n, std::int64_t i,
                                        std::int64_t j, std::int64_t c) {
  std::int64_t at = -1;
  float best = 0.0f;
  s.each_cell(n, i, j, c, [&](std::int64_t e) {
    const float value = static_cast<float>(x[e]);
    if (at < 0 || value > best || value != value) {
      at = e;
      best = value;
    }
  });
  return at;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    max_kernel(PoolSizes s, const T* x, T* y) {
  const std::int64_t e = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (e >= s.results()) return;
  const std::int64_t c = e % s.channels, pixel = e / s.channels;
  const std::int64_t at =
      greatest(s, x, pixel / (s.out_height * s.out_width),
               pixel / s.out_width % s.out_height, pixel % s.out_width, c);
  y[e] = at < 0 ? T(-INFINITY) : x[at];
}

// dx of one element: sums dy of the windows that chose it, in pixel order.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    max_gradient_kernel(PoolSizes s, const T* dy, const T* x, T* dx) {
  const std::int64_t e = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (e >= s.elements()) return;
  const std::int64_t c = e % s.channels, pixel = e / s.channels;
  const std::int64_t n = pixel / (s.height * s.width);
  float sum = 0.0f;
  s.each_window(pixel / s.width % s.height, pixel % s.width,
                [&](std::int64_t i, std::int64_t j) {
                  if (greatest(s, x, n, i, j, c) != e) return;
                  const std::int64_t to =
                      (n * s.out_height + i) * s.out_width + j;
                  sum += static_cast<float>(dy[to * s.channels + c]);
                });
  dx[e] = T(sum);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    mean_kernel(PoolSizes s, const T* x, T* y, bool padded) {
  const std::int64_t e = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (e >= s.results()) return;
  const std::int64_t c = e % s.channels, pixel = e / s.channels;
  const std::int64_t n = pixel / (s.out_height * s.out_width);
  const std::int64_t i = pixel / s.out_width % s.out_height;
  const std::int64_t j = pixel % s.out_width;
  const float factor = s.part_of_mean(padded, i, j);
  float sum = 0.0f;
  s.each_cell(n, i, j, c, [&](std::int64_t at) {
    sum += static_cast<float>(x[at]) * factor;
  });
  y[e] = T(sum);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    mean_gradient_kernel(PoolSizes s, const T* dy, T* dx, bool padded) {
  const std::int64_t e = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (e >= s.elements()) return;
  const std::int64_t c = e % s.channels, pixel = e / s.channels;
  const std::int64_t n = pixel / (s.height * s.width);
  float sum = 0.0f;
  s.each_window(pixel / s.width % s.height, pixel % s.width,
                [&](std::int64_t i, std::int64_t j) {
                  const std::int64_t to =
                      (n * s.out_height + i) * s.out_width + j;
                  sum += static_cast<float>(dy[to * s.channels + c]) *
                         s.part_of_mean(padded, i, j);
                });
  dx[e] = T(sum);
}

template <typename T>
void max_pool2d_forward_of(const MaxPool2dForward::Args& args) {
  launch(current_stream(), blocks_for(args.y.numel(), kThreads), kThreads, 0,
         max_kernel<T>, pool_sizes(args.x, args.y, args.windows),
         args.x.as<const T>(), args.y.as<T>());
}

template <typename T>
void max_pool2d_backward_of(const MaxPool2dBackward::Args& args) {
  launch(current_stream(), blocks_for(args.dx.numel(), kThreads), kThreads, 0,
         max_gradient_kernel<T>, pool_sizes(args.x, args.dy, args.windows),
         args.dy.as<const T>(), args.x.as<const T>(), args.dx.as<T>());
}

template <typename T>
void avg_pool2d_forward_of(const AvgPool2dForward::Args& args) {
  launch(current_stream(), blocks_for(args.y.numel(), kThreads), kThreads, 0,
         mean_kernel<T>, pool_sizes(args.x, args.y, args.windows),
         args.x.as<const T>(), args.y.as<T>(), args.padded);
}

template <typename T>
void avg_pool2d_backward_of(const AvgPool2dBackward::Args& args) {
  launch(current_stream(), blocks_for(args.dx.numel(), kThreads), kThreads, 0,
         mean_gradient_kernel<T>, pool_sizes(args.dx, args.dy, args.windows),
         args.dy.as<const T>(), args.dx.as<T>(), args.padded);
}

}  // namespace

EA_RUN_CUDA(MaxPool2dForward, max_pool2d_forward_of, x)
EA_RUN_CUDA(MaxPool2dBackward, max_pool2d_backward_of, x)
EA_RUN_CUDA(AvgPool2dForward, avg_pool2d_forward_of, x)
EA_RUN_CUDA(AvgPool2dBackward, avg_pool2d_backward_of, dy)

}  // namespace ea::cuda
