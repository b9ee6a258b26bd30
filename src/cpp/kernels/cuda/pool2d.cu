// Pooling of images straight from memory: a thread for each pixel and channel.
#include "kernels/pool2d.h"

#include "kernels/cuda/run.h"
#include "kernels/cuda/vec.cuh"

namespace ea::cuda {

namespace {

constexpr int kThreads = 256;

struct PoolSizes {
  std::int64_t images, height, width, channels, out_height, out_width;
  PoolWindows p;

  EA_HOST_DEVICE std::int64_t results() const {
    return images * out_height * out_width * channels;
  }
  EA_HOST_DEVICE std::int64_t elements() const {
    return images * height * width * channels;
  }
  // The element of cell (u, v) of window (i, j) of an image, or -1.
  __device__ std::int64_t cell(std::int64_t n, std::int64_t i, std::int64_t j,
                               std::int64_t u, std::int64_t v,
                               std::int64_t c) const {
    const std::int64_t h = i * p.stride_h + u * p.dilation_h - p.pad_h;
    const std::int64_t w = j * p.stride_w + v * p.dilation_w - p.pad_w;
    if (h < 0 || h >= height || w < 0 || w >= width) return -1;
    return ((n * height + h) * width + w) * channels + c;
  }
  // The windows of an axis whose cell `u` is pixel h: place i, or -1.
  __device__ static std::int64_t window(std::int64_t h, std::int64_t u,
                                        std::int64_t stride, std::int64_t pad,
                                        std::int64_t dilation,
                                        std::int64_t places) {
    const std::int64_t at = h + pad - u * dilation;
    if (at < 0 || at % stride != 0 || at / stride >= places) return -1;
    return at / stride;
  }
  __device__ std::int64_t row_window(std::int64_t h, std::int64_t u) const {
    return window(h, u, p.stride_h, p.pad_h, p.dilation_h, out_height);
  }
  __device__ std::int64_t column_window(std::int64_t w, std::int64_t v) const {
    return window(w, v, p.stride_w, p.pad_w, p.dilation_w, out_width);
  }
};

PoolSizes pool_sizes(const TensorView& x, const TensorView& y,
                     const PoolWindows& windows) {
  return {x.dim(0), x.dim(1), x.dim(2), x.dim(3), y.dim(1), y.dim(2), windows};
}

// The element of the greatest cell of a window, or -1.
template <typename T>
__device__ inline std::int64_t greatest(const PoolSizes& s, const T* x,
                                        std::int64_t n, std::int64_t i,
                                        std::int64_t j, std::int64_t c) {
  std::int64_t at = -1;
  float best = 0.0f;
  for (std::int64_t u = 0; u < s.p.kernel_h; ++u) {
    for (std::int64_t v = 0; v < s.p.kernel_w; ++v) {
      const std::int64_t e = s.cell(n, i, j, u, v, c);
      if (e < 0) continue;
      const float value = static_cast<float>(x[e]);
      if (at < 0 || value > best || value != value) {
        at = e;
        best = value;
      }
    }
  }
  return at;
}

// 1 / the number of cells that a mean counts.
__device__ inline float part_of_mean(const PoolSizes& s, bool padded,
                                     std::int64_t i, std::int64_t j) {
  std::int64_t counted = 1;
  for (int axis = 0; axis < 2; ++axis) {
    const std::int64_t size = axis == 0 ? s.height : s.width;
    const std::int64_t kernel = axis == 0 ? s.p.kernel_h : s.p.kernel_w;
    const std::int64_t pad = axis == 0 ? s.p.pad_h : s.p.pad_w;
    const std::int64_t first =
        (axis == 0 ? i * s.p.stride_h : j * s.p.stride_w) - pad;
    const std::int64_t border = padded ? size + pad : size;
    const std::int64_t end = first + kernel < border ? first + kernel : border;
    counted *= end - (padded || first > 0 ? first : 0);
  }
  return 1.0f / static_cast<float>(counted);
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

// dx of one element: the windows that chose it, in the order of their pixels,
// which is that of falling cells.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    max_gradient_kernel(PoolSizes s, const T* dy, const T* x, T* dx) {
  const std::int64_t e = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (e >= s.elements()) return;
  const std::int64_t c = e % s.channels, pixel = e / s.channels;
  const std::int64_t n = pixel / (s.height * s.width);
  float sum = 0.0f;
  for (std::int64_t u = s.p.kernel_h - 1; u >= 0; --u) {
    const std::int64_t i = s.row_window(pixel / s.width % s.height, u);
    if (i < 0) continue;
    for (std::int64_t v = s.p.kernel_w - 1; v >= 0; --v) {
      const std::int64_t j = s.column_window(pixel % s.width, v);
      if (j < 0 || greatest(s, x, n, i, j, c) != e) continue;
      const std::int64_t to = (n * s.out_height + i) * s.out_width + j;
      sum += static_cast<float>(dy[to * s.channels + c]);
    }
  }
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
  const float factor = part_of_mean(s, padded, i, j);
  float sum = 0.0f;
  for (std::int64_t u = 0; u < s.p.kernel_h; ++u) {
    for (std::int64_t v = 0; v < s.p.kernel_w; ++v) {
      const std::int64_t at = s.cell(n, i, j, u, v, c);
      if (at >= 0) sum += static_cast<float>(x[at]) * factor;
    }
  }
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
  for (std::int64_t u = s.p.kernel_h - 1; u >= 0; --u) {
    const std::int64_t i = s.row_window(pixel / s.width % s.height, u);
    if (i < 0) continue;
    for (std::int64_t v = s.p.kernel_w - 1; v >= 0; --v) {
      const std::int64_t j = s.column_window(pixel % s.width, v);
      if (j < 0) continue;
      const std::int64_t to = (n * s.out_height + i) * s.out_width + j;
      sum += static_cast<float>(dy[to * s.channels + c]) *
             part_of_mean(s, padded, i, j);
    }
  }
  dx[e] = T(sum);
}

}  // namespace

template <>
void run<MaxPool2dForward>(const MaxPool2dForward::Args& args) {
  visit_narrow(args.x.dtype, MaxPool2dForward::name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch(current_stream(), blocks_for(args.y.numel(), kThreads), kThreads, 0,
           max_kernel<T>, pool_sizes(args.x, args.y, args.windows),
           args.x.as<const T>(), args.y.as<T>());
  });
}

template <>
void run<MaxPool2dBackward>(const MaxPool2dBackward::Args& args) {
  visit_narrow(args.x.dtype, MaxPool2dBackward::name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch(current_stream(), blocks_for(args.dx.numel(), kThreads), kThreads, 0,
           max_gradient_kernel<T>, pool_sizes(args.x, args.dy, args.windows),
           args.dy.as<const T>(), args.x.as<const T>(), args.dx.as<T>());
  });
}

template <>
void run<AvgPool2dForward>(const AvgPool2dForward::Args& args) {
  visit_narrow(args.x.dtype, AvgPool2dForward::name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch(current_stream(), blocks_for(args.y.numel(), kThreads), kThreads, 0,
           mean_kernel<T>, pool_sizes(args.x, args.y, args.windows),
           args.x.as<const T>(), args.y.as<T>(), args.padded);
  });
}

template <>
void run<AvgPool2dBackward>(const AvgPool2dBackward::Args& args) {
  visit_narrow(args.dy.dtype, AvgPool2dBackward::name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch(current_stream(), blocks_for(args.dx.numel(), kThreads), kThreads, 0,
           mean_gradient_kernel<T>, pool_sizes(args.dx, args.dy, args.windows),
           args.dy.as<const T>(), args.dx.as<T>(), args.padded);
  });
}

}  // namespace ea::cuda
