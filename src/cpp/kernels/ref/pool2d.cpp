// Reference pooling of images: the definitions, window by window.
#include "kernels/pool2d.h"

#include <limits>
#include <vector>

#include "kernels/ref/run.h"
#include "runtime/check.h"

namespace ea::ref {

namespace {

// Calls fn(first element of the output pixel, i, j, first element of its image)
// for each output pixel.
template <typename Fn>
void for_windows(const TensorView& y, std::int64_t image_size, Fn&& fn) {
  const std::int64_t height = y.dim(1), width = y.dim(2), channels = y.dim(3);
  for (std::int64_t p = 0; p < y.dim(0) * height * width; ++p) {
    fn(p * channels, p / width % height, p % width,
       p / (height * width) * image_size);
  }
}

// The element of channel c that has the greatest value of a window, or -1.
template <typename T>
std::int64_t greatest_of(const TensorView& x, const PoolWindows& p,
                         std::int64_t image, std::int64_t i, std::int64_t j,
                         std::int64_t c) {
  using A = Accumulator<T>;
  const std::int64_t channels = x.dim(3);
  std::int64_t at = -1;
  A best = -std::numeric_limits<A>::infinity();
  for (std::int64_t u = 0; u < p.kernel_h; ++u) {
    const std::int64_t h = i * p.stride_h + u * p.dilation_h - p.pad_h;
    if (h < 0 || h >= x.dim(1)) continue;
    for (std::int64_t v = 0; v < p.kernel_w; ++v) {
      const std::int64_t w = j * p.stride_w + v * p.dilation_w - p.pad_w;
      if (w < 0 || w >= x.dim(2)) continue;
      const std::int64_t cell = image + (h * x.dim(2) + w) * channels + c;
      const A value = A(x.as<T>()[cell]);
      if (at < 0 || value > best || value != value) {
        at = cell;
        best = value;
      }
    }
  }
  return at;
}

std::int64_t image_elements(const TensorView& x) {
  return x.dim(1) * x.dim(2) * x.dim(3);
}

// Calls fn(pixel of the image, 1 / divisor) for each cell of a window.
template <typename A, typename Fn>
void for_mean_cells(const TensorView& x, const PoolWindows& p, bool padded,
                    std::int64_t i, std::int64_t j, Fn&& fn) {
  const PoolSpan rows = pool_span(i, p.kernel_h, p.stride_h, p.pad_h, x.dim(1));
  const PoolSpan cols = pool_span(j, p.kernel_w, p.stride_w, p.pad_w, x.dim(2));
  const std::int64_t counted =
      padded ? rows.all * cols.all
             : (rows.end - rows.begin) * (cols.end - cols.begin);
  for (std::int64_t h = rows.begin; h < rows.end; ++h) {
    for (std::int64_t w = cols.begin; w < cols.end; ++w) {
      fn(h * x.dim(2) + w, A(1) / A(counted));
    }
  }
}

}  // namespace

template <>
void run<MaxPool2dForward>(const MaxPool2dForward::Args& args) {
  visit_floating(args.x.dtype, MaxPool2dForward::name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_windows(args.y, image_elements(args.x),
                [&](std::int64_t to, std::int64_t i, std::int64_t j,
                    std::int64_t image) {
                  for (std::int64_t c = 0; c < args.x.dim(3); ++c) {
                    const std::int64_t at =
                        greatest_of<T>(args.x, args.windows, image, i, j, c);
                    args.y.as<T>()[to + c] =
                        at < 0 ? T(-std::numeric_limits<float>::infinity())
                               : args.x.as<T>()[at];
                  }
                });
  });
}

template <>
void run<MaxPool2dBackward>(const MaxPool2dBackward::Args& args) {
  visit_floating(args.x.dtype, MaxPool2dBackward::name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    std::vector<A> dx(static_cast<std::size_t>(args.x.numel()));
    for_windows(args.dy, image_elements(args.x),
                [&](std::int64_t from, std::int64_t i, std::int64_t j,
                    std::int64_t image) {
                  for (std::int64_t c = 0; c < args.x.dim(3); ++c) {
                    const std::int64_t at =
                        greatest_of<T>(args.x, args.windows, image, i, j, c);
                    if (at < 0) continue;
                    dx[static_cast<std::size_t>(at)] +=
                        A(args.dy.as<T>()[from + c]);
                  }
                });
    for (std::size_t i = 0; i < dx.size(); ++i) args.dx.as<T>()[i] = T(dx[i]);
  });
}

template <>
void run<AvgPool2dForward>(const AvgPool2dForward::Args& args) {
  visit_floating(args.x.dtype, AvgPool2dForward::name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const std::int64_t channels = args.x.dim(3);
    std::vector<A> sums(static_cast<std::size_t>(channels));
    for_windows(args.y, image_elements(args.x),
                [&](std::int64_t to, std::int64_t i, std::int64_t j,
                    std::int64_t image) {
                  sums.assign(sums.size(), A(0));
                  for_mean_cells<A>(
                      args.x, args.windows, args.padded, i, j,
                      [&](std::int64_t pixel, A part) {
                        const T* x = args.x.as<T>() + image + pixel * channels;
                        A* sum = sums.data();
                        for (std::int64_t c = 0; c < channels; ++c) {
                          sum[c] += A(x[c]) * part;
                        }
                      });
                  for (std::int64_t c = 0; c < channels; ++c) {
                    args.y.as<T>()[to + c] =
                        T(sums[static_cast<std::size_t>(c)]);
                  }
                });
  });
}

// y is linear in x, so its transpose gives each cell its part of dy.
template <>
void run<AvgPool2dBackward>(const AvgPool2dBackward::Args& args) {
  visit_floating(args.dy.dtype, AvgPool2dBackward::name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const std::int64_t channels = args.dx.dim(3);
    std::vector<A> dx(static_cast<std::size_t>(args.dx.numel()));
    for_windows(args.dy, image_elements(args.dx),
                [&](std::int64_t from, std::int64_t i, std::int64_t j,
                    std::int64_t image) {
                  for_mean_cells<A>(
                      args.dx, args.windows, args.padded, i, j,
                      [&](std::int64_t pixel, A part) {
                        A* to = dx.data() + image + pixel * channels;
                        const T* dy = args.dy.as<T>() + from;
                        for (std::int64_t c = 0; c < channels; ++c) {
                          to[c] += A(dy[c]) * part;
                        }
                      });
                });
    for (std::size_t i = 0; i < dx.size(); ++i) args.dx.as<T>()[i] = T(dx[i]);
  });
}

}  // namespace ea::ref
