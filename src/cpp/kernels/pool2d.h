// Contract: max and average pooling of images, channels last.
#pragma once

#include <cstdint>

#include "tensor/tensor_view.h"

namespace ea {

// Cells of a window along one axis. begin, begin + step, ... below end are
// inside the image. `all` counts the cells inside the padded image; it holds
// for step 1 only.
struct PoolSpan {
  std::int64_t begin, end, step, all;

  constexpr std::int64_t count() const { return end - begin; }
  constexpr bool holds(std::int64_t pixel) const {
    return pixel >= begin && pixel < end && (pixel - begin) % step == 0;
  }
};

// Windows along one axis: `places` windows over `size` pixels.
struct PoolAxis {
  std::int64_t size, places, kernel, stride, pad, dilation;
  bool adaptive;

  // Returns the cells of window i.
  __attribute__((always_inline)) constexpr PoolSpan span(std::int64_t i) const {
    if (adaptive) {
      const std::int64_t begin = i * size / places;
      const std::int64_t end = ((i + 1) * size + places - 1) / places;
      return {begin, end, 1, end - begin};
    }
    const std::int64_t first = i * stride - pad;
    const std::int64_t last = first + (kernel - 1) * dilation + 1;
    const std::int64_t edge = last < size + pad ? last : size + pad;
    const std::int64_t before =
        first < 0 ? (dilation - 1 - first) / dilation * dilation : 0;
    return {first + before, last < size ? last : size, dilation, edge - first};
  }

  // Range of the windows that may contain a pixel; includes `last`.
  struct Run {
    std::int64_t first, last;
  };
  __attribute__((always_inline)) constexpr Run windows_of(
      std::int64_t pixel) const {
    if (adaptive) {
      return {pixel * places / size, ((pixel + 1) * places - 1) / size};
    }
    const std::int64_t ends = pixel + pad - (kernel - 1) * dilation;
    const std::int64_t last = (pixel + pad) / stride;
    return {ends <= 0 ? 0 : (ends + stride - 1) / stride,
            last < places ? last : places - 1};
  }
};

// Cell (u, v) of the window of output pixel (i, j) is pixel (i stride_h +
// u dilation_h - pad_h, j stride_w + v dilation_w - pad_w); cells outside the
// image are ignored. Adaptive windows divide the image instead: window i of n
// along an axis has the pixels from floor(i size / n) up to ceil((i + 1) size /
// n).
struct PoolWindows {
  std::int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1,
               pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  bool adaptive = false;

  // Windows along the height and the width of images; `places` is the size of
  // the result along that axis.
  __attribute__((always_inline)) constexpr PoolAxis rows(
      std::int64_t height, std::int64_t places) const {
    return {height, places, kernel_h, stride_h, pad_h, dilation_h, adaptive};
  }
  __attribute__((always_inline)) constexpr PoolAxis columns(
      std::int64_t width, std::int64_t places) const {
    return {width, places, kernel_w, stride_w, pad_w, dilation_w, adaptive};
  }
};

// y[n, i, j, c] = the maximum of the window: NaN if it contains a NaN,
// -infinity if it has no cell. x [images, height, width, channels], y [images,
// out height, out width, channels]: contiguous, of one dtype.
struct MaxPool2dForward {
  static constexpr const char* name = "max_pool2d_forward";
  struct Args {
    TensorView x;
    Output y;
    PoolWindows windows;
  };
};

// Adds dy of each window to dx at the first cell that has the maximum (at the
// last NaN, if there is one). Windows accumulate in the order of their output
// pixels; dx is fully written.
struct MaxPool2dBackward {
  static constexpr const char* name = "max_pool2d_backward";
  struct Args {
    TensorView dy, x;
    Output dx;
    PoolWindows windows;
  };
};

// y[n, i, j, c] = the sum of the window's cells / their number. With `padded`,
// the divisor is the number of cells inside the padded image. A window without
// cells gives 0. Dilations are 1.
struct AvgPool2dForward {
  static constexpr const char* name = "avg_pool2d_forward";
  struct Args {
    TensorView x;
    Output y;
    PoolWindows windows;
    bool padded;
  };
};

// Computes dx of AvgPool2dForward, fully written.
struct AvgPool2dBackward {
  static constexpr const char* name = "avg_pool2d_backward";
  struct Args {
    TensorView dy;
    Output dx;
    PoolWindows windows;
    bool padded;
  };
};

}  // namespace ea
