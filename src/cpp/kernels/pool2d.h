// Contract: the greatest and the mean value of windows of images, channels
// last.
#pragma once

#include <cstdint>

#include "tensor/tensor_view.h"

namespace ea {

// The cells of one axis of a window: begin, begin + step, ... below end lie
// inside the image; `all` of them inside the image with its padding, where step
// is 1.
struct PoolSpan {
  std::int64_t begin, end, step, all;

  constexpr std::int64_t count() const { return end - begin; }
  constexpr bool holds(std::int64_t pixel) const {
    return pixel >= begin && pixel < end && (pixel - begin) % step == 0;
  }
};

// One axis of the windows: `places` of them over `size` pixels.
struct PoolAxis {
  std::int64_t size, places, kernel, stride, pad, dilation;
  bool adaptive;

  // Of window i.
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

  // Windows `first` to `last` are all that may hold a pixel.
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

// Cell (u, v) of the window of output pixel (i, j) is pixel (i stride_h + u
// dilation_h - pad_h, j stride_w + v dilation_w - pad_w); it does not count
// where that lies outside the image. Adaptive windows divide the image instead:
// window i of n along an axis has the pixels from floor(i size / n) up to
// ceil((i + 1) size / n).
struct PoolWindows {
  std::int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1,
               pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  bool adaptive = false;

  // Along the height and the width of images, with the places of the result.
  __attribute__((always_inline)) constexpr PoolAxis rows(
      std::int64_t height, std::int64_t places) const {
    return {height, places, kernel_h, stride_h, pad_h, dilation_h, adaptive};
  }
  __attribute__((always_inline)) constexpr PoolAxis columns(
      std::int64_t width, std::int64_t places) const {
    return {width, places, kernel_w, stride_w, pad_w, dilation_w, adaptive};
  }
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

}  // namespace ea
