// Contract: the greatest and the mean value of windows of images, channels
// last.
#pragma once

#include <cstdint>

#include "tensor/tensor_view.h"

namespace ea {

// Cell (u, v) of the window of output pixel (i, j) is pixel (i stride_h + u
// dilation_h - pad_h, j stride_w + v dilation_w - pad_w); it does not count
// where that lies outside the image.
struct PoolWindows {
  std::int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h,
      dilation_w;
};

// y[n, i, j, c] = the greatest cell of the window, NaN if one is, and -infinity
// where the window has no cell. x [images, height, width, channels], y [images,
// out height, out width, channels]; contiguous, of one dtype.
struct MaxPool2dForward {
  static constexpr const char* name = "max_pool2d_forward";
  struct Args {
    TensorView x;
    Output y;
    PoolWindows windows;
  };
};

// dx = dy at the first cell of each window that has its greatest value (the
// last NaN, if there is one), summed over the windows in the order of their
// pixels; fully written.
struct MaxPool2dBackward {
  static constexpr const char* name = "max_pool2d_backward";
  struct Args {
    TensorView dy, x;
    Output dx;
    PoolWindows windows;
  };
};

// y[n, i, j, c] = the sum of the window's cells / their number; padded: the
// number of cells of the window inside the image with its padding instead. 0 of
// no cell. Dilations are 1.
struct AvgPool2dForward {
  static constexpr const char* name = "avg_pool2d_forward";
  struct Args {
    TensorView x;
    Output y;
    PoolWindows windows;
    bool padded;
  };
};

// dx of the above, fully written.
struct AvgPool2dBackward {
  static constexpr const char* name = "avg_pool2d_backward";
  struct Args {
    TensorView dy;
    Output dx;
    PoolWindows windows;
    bool padded;
  };
};

// One axis of the window of output place i: cells [begin, end) count, and `all`
// of them lie inside the image with its padding.
struct PoolSpan {
  std::int64_t begin, end, all;
};

// For windows without dilation over an axis of `size` pixels.
__attribute__((always_inline)) constexpr PoolSpan pool_span(std::int64_t i,
                                                            std::int64_t kernel,
                                                            std::int64_t stride,
                                                            std::int64_t pad,
                                                            std::int64_t size) {
  const std::int64_t first = i * stride - pad;
  const std::int64_t last = first + kernel;
  const std::int64_t edge = last < size + pad ? last : size + pad;
  return {first < 0 ? 0 : first, last < size ? last : size, edge - first};
}

}  // namespace ea
