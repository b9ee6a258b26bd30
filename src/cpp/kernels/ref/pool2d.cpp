// Reference pooling of images: the definitions, window by window.
#include "kernels/pool2d.h"

#include <limits>
#include <vector>

#include "kernels/ref/run.h"
#include "runtime/check.h"

namespace ea::ref {

namespace {

// A window of an image.
struct Cells {
  PoolSpan rows, columns;
  std::int64_t width;  // of the image

  // Calls fn(pixel) for each cell inside the image.
  template <typename Fn>
  void each(Fn&& fn) const {
    for (std::int64_t h = rows.begin; h < rows.end; h += rows.step) {
      for (std::int64_t w = columns.begin; w < columns.end; w += columns.step) {
        fn(h * width + w);
      }
    }
  }
  // Returns the factor of each cell in a mean.
  template <typename A>
  A part(bool padded) const {
    return A(1) /
           A(padded ? rows.all * columns.all : rows.count() * columns.count());
  }
};

// Calls fn(first element of the output pixel, its window, first element of its
// image) for each output pixel.
template <typename Fn>
void for_windows(const TensorView& x, const TensorView& y,
                 const PoolWindows& windows, Fn&& fn) {
  const std::int64_t height = y.dim(1), width = y.dim(2), channels = y.dim(3);
  const PoolAxis rows = windows.rows(x.dim(1), height);
  const PoolAxis columns = windows.columns(x.dim(2), width);
  const std::int64_t image = x.dim(1) * x.dim(2) * channels;
  for (std::int64_t p = 0; p < y.dim(0) * height * width; ++p) {
    const Cells cells{rows.span(p / width % height), columns.span(p % width),
                      x.dim(2)};
    fn(p * channels, cells, p / (height * width) * image);
  }
}

// Returns the element with the greatest value of channel c in a window, or -1.
template <typename T>
std::int64_t greatest_of(const TensorView& x, const Cells& cells,
                         std::int64_t image, std::int64_t c) {
  using A = Accumulator<T>;
  std::int64_t at = -1;
  A best = -std::numeric_limits<A>::infinity();
  cells.each([&](std::int64_t pixel) {
    const std::int64_t cell = image + pixel * x.dim(3) + c;
    const A value = A(x.as<T>()[cell]);
    if (at < 0 || value > best || value != value) {
      at = cell;
      best = value;
    }
  });
  return at;
}

template <typename T>
void max_pool2d_forward_of(const MaxPool2dForward::Args& args) {
  for_windows(args.x, args.y, args.windows,
              [&](std::int64_t to, const Cells& cells, std::int64_t image) {
                for (std::int64_t c = 0; c < args.x.dim(3); ++c) {
                  const std::int64_t at =
                      greatest_of<T>(args.x, cells, image, c);
                  args.y.as<T>()[to + c] =
                      at < 0 ? T(-std::numeric_limits<float>::infinity())
                             : args.x.as<T>()[at];
                }
              });
}

template <typename T>
void max_pool2d_backward_of(const MaxPool2dBackward::Args& args) {
  using A = Accumulator<T>;
  std::vector<A> dx(static_cast<std::size_t>(args.x.numel()));
  for_windows(
      args.x, args.dy, args.windows,
      [&](std::int64_t from, const Cells& cells, std::int64_t image) {
        for (std::int64_t c = 0; c < args.x.dim(3); ++c) {
          const std::int64_t at = greatest_of<T>(args.x, cells, image, c);
          if (at < 0) continue;
          dx[static_cast<std::size_t>(at)] += A(args.dy.as<T>()[from + c]);
        }
      });
  for (std::size_t i = 0; i < dx.size(); ++i) args.dx.as<T>()[i] = T(dx[i]);
}

template <typename T>
void avg_pool2d_forward_of(const AvgPool2dForward::Args& args) {
  using A = Accumulator<T>;
  const std::int64_t channels = args.x.dim(3);
  std::vector<A> sums(static_cast<std::size_t>(channels));
  for_windows(args.x, args.y, args.windows,
              [&](std::int64_t to, const Cells& cells, std::int64_t image) {
                sums.assign(sums.size(), A(0));
                const A part = cells.part<A>(args.padded);
                cells.each([&](std::int64_t pixel) {
                  const T* x = args.x.as<T>() + image + pixel * channels;
                  A* sum = sums.data();
                  for (std::int64_t c = 0; c < channels; ++c) {
                    sum[c] += A(x[c]) * part;
                  }
                });
                for (std::int64_t c = 0; c < channels; ++c) {
                  args.y.as<T>()[to + c] = T(sums[static_cast<std::size_t>(c)]);
                }
              });
}

// y is linear in x, so the transpose adds to each cell its part of dy.
template <typename T>
void avg_pool2d_backward_of(const AvgPool2dBackward::Args& args) {
  using A = Accumulator<T>;
  const std::int64_t channels = args.dx.dim(3);
  std::vector<A> dx(static_cast<std::size_t>(args.dx.numel()));
  for_windows(args.dx, args.dy, args.windows,
              [&](std::int64_t from, const Cells& cells, std::int64_t image) {
                const A part = cells.part<A>(args.padded);
                cells.each([&](std::int64_t pixel) {
                  A* to = dx.data() + image + pixel * channels;
                  const T* dy = args.dy.as<T>() + from;
                  for (std::int64_t c = 0; c < channels; ++c) {
                    to[c] += A(dy[c]) * part;
                  }
                });
              });
  for (std::size_t i = 0; i < dx.size(); ++i) args.dx.as<T>()[i] = T(dx[i]);
}

}  // namespace

EA_RUN_REF(MaxPool2dForward, max_pool2d_forward_of, x)
EA_RUN_REF(MaxPool2dBackward, max_pool2d_backward_of, x)
EA_RUN_REF(AvgPool2dForward, avg_pool2d_forward_of, x)
EA_RUN_REF(AvgPool2dBackward, avg_pool2d_backward_of, dy)

}  // namespace ea::ref
