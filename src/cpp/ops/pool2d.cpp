// Pooling of images.
#include "ops/pool2d.h"

#include "autograd/node.h"
#include "kernels/registry.h"
#include "ops/images.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Output of the pooling of x, not filled.
Tensor pooled(const char* op, const Var& x, const PoolWindows& w,
              bool ceiling) {
  EA_CHECK(x.rank() == 4, op,
           "input has shape {}, expected four axes: images, channels, height "
           "and width",
           x.shape());
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

}  // namespace

// dx is dy at the greatest cell of each window, found again from x.
Var max_pool2d(const Var& x, const PoolWindows& windows, bool ceiling) {
  const Tensor y = pooled("max_pool2d", x, windows, ceiling);
  const Tensor images = contiguous(x.data());
  kernels::run<MaxPool2dForward>({images, y, windows});
  return record(
      "max_pool2d", y, {x}, {images},
      [windows](const Node& node, const Tensor& dy) {
        const Tensor& x = node.saved(0);
        const Tensor dx = empty_like(x);
        kernels::run<MaxPool2dBackward>({contiguous(dy), x, dx, windows});
        return Node::Gradients{dx};
      });
}

// Linear in x: dx is the transpose of the mean.
Var avg_pool2d(const Var& x, const PoolWindows& windows, bool ceiling,
               bool counts_padding) {
  EA_CHECK_AS(ConfigError, windows.dilation_h == 1 && windows.dilation_w == 1,
              "avg_pool2d", "dilation ({}, {}), expected 1: means have none",
              windows.dilation_h, windows.dilation_w);
  const Tensor y = pooled("avg_pool2d", x, windows, ceiling);
  kernels::run<AvgPool2dForward>(
      {contiguous(x.data()), y, windows, counts_padding});
  const Shape shape = x.shape();
  return record(
      "avg_pool2d", y, {x}, {},
      [windows, counts_padding, shape](const Node&, const Tensor& grad) {
        const Tensor dy = contiguous(grad);
        const Tensor dx = empty(shape, dy.dtype(), dy.device());
        kernels::run<AvgPool2dBackward>({dy, dx, windows, counts_padding});
        return Node::Gradients{dx};
      });
}

}  // namespace ea
