// Pooling of images.
#include "ops/pool2d.h"

#include "autograd/node.h"
#include "kernels/registry.h"
#include "ops/images.h"
#include "runtime/check.h"

namespace ea {

namespace {

constexpr PoolWindows kAdaptive{.adaptive = true};

void check_images(const char* op, const Var& x) {
  EA_CHECK(x.rank() == 4, op,
           "input has shape {}, expected four axes: images, channels, height "
           "and width",
           x.shape());
}

// Returns the uninitialised output of pooling x.
Tensor pooled(const char* op, const Var& x, const PoolWindows& w,
              bool ceiling) {
  check_images(op, x);
  const WindowAxis rows{x.dim(1), w.kernel_h, w.stride_h, w.pad_h,
                        w.dilation_h};
  const WindowAxis columns{x.dim(2), w.kernel_w, w.stride_w, w.pad_w,
                           w.dilation_w};
  const std::int64_t height = places_of_window(op, "height", rows, ceiling);
  const std::int64_t width = places_of_window(op, "width", columns, ceiling);
  EA_CHECK_AS(ConfigError,
              2 * w.pad_h <= w.kernel_h && 2 * w.pad_w <= w.kernel_w, op,
              "padding ({}, {}) of a window of {} x {}: expected at most half "
              "of it",
              w.pad_h, w.pad_w, w.kernel_h, w.kernel_w);
  return empty({x.dim(0), height, width, x.dim(3)}, x.dtype(), x.device());
}

// pooled() for adaptive windows.
Tensor divided(const char* op, const Var& x, std::int64_t height,
               std::int64_t width) {
  check_images(op, x);
  EA_CHECK_AS(
      ConfigError,
      height > 0 && width > 0 && height < kMostPixels && width < kMostPixels,
      op, "output_size ({}, {}), expected 1 or more, below {}", height, width,
      kMostPixels);
  EA_CHECK(x.dim(1) > 0 && x.dim(2) > 0, op,
           "images of {} x {} pixels (height x width), expected at least one",
           x.dim(1), x.dim(2));
  return empty({x.dim(0), height, width, x.dim(3)}, x.dtype(), x.device());
}

// dx gets dy at the greatest cell of each window, which the backward finds
// again from x.
Var greatest(const char* op, const Var& x, const Tensor& y,
             const PoolWindows& windows) {
  const Tensor images = contiguous(x.data());
  kernels::run<MaxPool2dForward>({images, y, windows});
  return record(
      op, y, {x}, {images}, [windows](const Node& node, const Tensor& dy) {
        const Tensor& x = node.saved(0);
        const Tensor dx = empty_like(x);
        kernels::run<MaxPool2dBackward>({contiguous(dy), x, dx, windows});
        return Node::Gradients{dx};
      });
}

// The mean is linear in x, so dx is its transpose applied to dy.
Var mean_of(const char* op, const Var& x, const Tensor& y,
            const PoolWindows& windows, bool counts_padding) {
  kernels::run<AvgPool2dForward>(
      {contiguous(x.data()), y, windows, counts_padding});
  const Shape shape = x.shape();
  return record(
      op, y, {x}, {},
      [windows, counts_padding, shape](const Node&, const Tensor& grad) {
        const Tensor dy = contiguous(grad);
        const Tensor dx = empty(shape, dy.dtype(), dy.device());
        kernels::run<AvgPool2dBackward>({dy, dx, windows, counts_padding});
        return Node::Gradients{dx};
      });
}

}  // namespace

Var max_pool2d(const Var& x, const PoolWindows& windows, bool ceiling) {
  const char* op = "max_pool2d";
  return greatest(op, x, pooled(op, x, windows, ceiling), windows);
}

Var avg_pool2d(const Var& x, const PoolWindows& windows, bool ceiling,
               bool counts_padding) {
  const char* op = "avg_pool2d";
  EA_CHECK_AS(ConfigError, windows.dilation_h == 1 && windows.dilation_w == 1,
              op, "dilation ({}, {}), expected 1: means have none",
              windows.dilation_h, windows.dilation_w);
  return mean_of(op, x, pooled(op, x, windows, ceiling), windows,
                 counts_padding);
}

Var adaptive_max_pool2d(const Var& x, std::int64_t height, std::int64_t width) {
  const char* op = "adaptive_max_pool2d";
  return greatest(op, x, divided(op, x, height, width), kAdaptive);
}

Var adaptive_avg_pool2d(const Var& x, std::int64_t height, std::int64_t width) {
  const char* op = "adaptive_avg_pool2d";
  return mean_of(op, x, divided(op, x, height, width), kAdaptive, false);
}

}  // namespace ea
