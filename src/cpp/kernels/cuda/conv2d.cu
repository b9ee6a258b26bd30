// Image convolution read directly from global memory: one thread per pixel and
// channel of a result, one block per weight.
#include "kernels/conv2d.h"

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/run.h"
#include "kernels/cuda/vec.cuh"

namespace ea::cuda {

namespace {

constexpr int kThreads = 256;

struct ConvSizes {
  std::int64_t images, height, width, in, out_height, out_width, out;
  std::int64_t group_in, group_out, kernel_h, kernel_w;
  Conv2dTaps taps;

  EA_HOST_DEVICE std::int64_t cells() const { return kernel_h * kernel_w; }
  EA_HOST_DEVICE std::int64_t pixels() const {
    return images * out_height * out_width;
  }
  // Returns the input pixel that a tap of output pixel p reads, or -1.
  __device__ std::int64_t read_by(std::int64_t p, std::int64_t tap) const {
    const std::int64_t h = p / out_width % out_height * taps.stride_h +
                           tap / kernel_w * taps.dilation_h - taps.pad_h;
    const std::int64_t w = p % out_width * taps.stride_w +
                           tap % kernel_w * taps.dilation_w - taps.pad_w;
    if (h < 0 || h >= height || w < 0 || w >= width) return -1;
    return (p / (out_height * out_width) * height + h) * width + w;
  }
  // Returns the output pixel whose tap reads input pixel p, or -1.
  __device__ std::int64_t reads(std::int64_t p, std::int64_t tap) const {
    const std::int64_t h =
        p / width % height + taps.pad_h - tap / kernel_w * taps.dilation_h;
    const std::int64_t w =
        p % width + taps.pad_w - tap % kernel_w * taps.dilation_w;
    if (h < 0 || w < 0 || h % taps.stride_h != 0 || w % taps.stride_w != 0) {
      return -1;
    }
    const std::int64_t i = h / taps.stride_h, j = w / taps.stride_w;
    if (i >= out_height || j >= out_width) return -1;
    return (p / (height * width) * out_height + i) * out_width + j;
  }
};

ConvSizes conv_sizes(const TensorView& x, const TensorView& weight,
                     const TensorView& y, const Conv2dTaps& taps) {
  return {x.dim(0),      x.dim(1),      x.dim(2),
          x.dim(3),      y.dim(1),      y.dim(2),
          y.dim(3),      weight.dim(1), y.dim(3) / taps.groups,
          weight.dim(2), weight.dim(3), taps};
}

// Operations after the sum; a null pointer skips its operation.
template <typename T>
struct Epilogue {
  const float *scale, *shift;
  const T* residual;
  bool rectify;

  __device__ float operator()(float sum, std::int64_t o, std::int64_t e) const {
    if (scale == nullptr) return sum;
    sum = sum * scale[o] + shift[o];
    if (residual != nullptr) sum += static_cast<float>(residual[e]);
    return rectify && sum < 0.0f ? 0.0f : sum;
  }
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    image_kernel(ConvSizes s, const T* x, const T* weight, const T* bias,
                 Epilogue<T> epilogue, T* y) {
  const std::int64_t e = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (e >= s.pixels() * s.out) return;
  const std::int64_t p = e / s.out, o = e % s.out;
  const std::int64_t first = o / s.group_out * s.group_in;
  const T* const mine = weight + o * s.group_in * s.cells();
  float sum = 0.0f;
  for (std::int64_t tap = 0; tap < s.cells(); ++tap) {
    const std::int64_t from = s.read_by(p, tap);
    if (from < 0) continue;
    for (std::int64_t c = 0; c < s.group_in; ++c) {
      sum += static_cast<float>(mine[c * s.cells() + tap]) *
             static_cast<float>(x[from * s.in + first + c]);
    }
  }
  if (bias != nullptr) sum += static_cast<float>(bias[o]);
  y[e] = T(epilogue(sum, o, e));
}

// dx[p, c] = sum over taps and output channels of dy times the weight.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    image_gradient_kernel(ConvSizes s, const T* dy, const T* weight, T* dx) {
  const std::int64_t e = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (e >= s.images * s.height * s.width * s.in) return;
  const std::int64_t p = e / s.in, c = e % s.in;
  const std::int64_t first = c / s.group_in * s.group_out;
  float sum = 0.0f;
  for (std::int64_t tap = 0; tap < s.cells(); ++tap) {
    const std::int64_t to = s.reads(p, tap);
    if (to < 0) continue;
    for (std::int64_t o = first; o < first + s.group_out; ++o) {
      const std::int64_t at = (o * s.group_in + c % s.group_in) * s.cells();
      sum += static_cast<float>(dy[to * s.out + o]) *
             static_cast<float>(weight[at + tap]);
    }
  }
  dx[e] = T(sum);
}

// Each block computes one weight by a loop over the output pixels.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    image_weight_kernel(ConvSizes s, const T* dy, const T* x, T* dweight) {
  EA_SHARED(float, partial, kWarp);
  const std::int64_t e = blockIdx.x;
  const std::int64_t o = e / (s.group_in * s.cells());
  const std::int64_t tap = e % s.cells();
  const std::int64_t c =
      o / s.group_out * s.group_in + e / s.cells() % s.group_in;
  float sum = 0.0f;
  for (std::int64_t p = threadIdx.x; p < s.pixels(); p += kThreads) {
    const std::int64_t from = s.read_by(p, tap);
    if (from < 0) continue;
    sum += static_cast<float>(dy[p * s.out + o]) *
           static_cast<float>(x[from * s.in + c]);
  }
  sum = block_sum(sum, partial);
  if (threadIdx.x == 0) dweight[e] = T(sum);
}

template <typename T>
void conv2d_forward_of(const Conv2dForward::Args& args) {
  const Epilogue<T> epilogue{args.scale.as<const float>(),
                             args.shift.as<const float>(),
                             args.residual.as<const T>(), args.rectify};
  launch(current_stream(), blocks_for(args.y.numel(), kThreads), kThreads, 0,
         image_kernel<T>, conv_sizes(args.x, args.weight, args.y, args.taps),
         args.x.as<const T>(), args.weight.as<const T>(),
         args.bias.as<const T>(), epilogue, args.y.as<T>());
}

template <typename T>
void conv2d_backward_of(const Conv2dBackward::Args& args) {
  const ConvSizes s = conv_sizes(args.x, args.weight, args.dy, args.taps);
  if (args.dx.defined()) {
    launch(current_stream(), blocks_for(args.dx.numel(), kThreads), kThreads, 0,
           image_gradient_kernel<T>, s, args.dy.as<const T>(),
           args.weight.as<const T>(), args.dx.as<T>());
  }
  if (args.dweight.defined()) {
    launch(current_stream(), blocks_for(args.dweight.numel(), 1), kThreads, 0,
           image_weight_kernel<T>, s, args.dy.as<const T>(),
           args.x.as<const T>(), args.dweight.as<T>());
  }
}

}  // namespace

EA_RUN_CUDA(Conv2dForward, conv2d_forward_of, x)
EA_RUN_CUDA(Conv2dBackward, conv2d_backward_of, x)

}  // namespace ea::cuda
