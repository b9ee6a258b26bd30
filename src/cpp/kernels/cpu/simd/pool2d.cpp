// SIMD pooling of images, channel by channel (kernels/pool2d.h).
#include "kernels/pool2d.h"
#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// A window of an image; `width` is the width of the image.
struct PoolCells {
  PoolSpan rows, columns;
  std::int64_t width;

  // Calls fn(pixel, row, column of the image) for each cell inside the image.
  template <typename Fn>
  EA_INLINE void each(Fn&& fn) const {
    for (std::int64_t h = rows.begin; h < rows.end; h += rows.step) {
      for (std::int64_t w = columns.begin; w < columns.end; w += columns.step) {
        fn(h * width + w, h, w);
      }
    }
  }
  // Returns the factor of each cell in a mean.
  EA_INLINE float part(bool padded) const {
    return 1.0f / static_cast<float>(padded ? rows.all * columns.all
                                            : rows.count() * columns.count());
  }
};

// Sizes of the images and of the results.
struct PoolSizes {
  std::int64_t images, height, width, channels, out_height, out_width;
  PoolAxis rows, columns;

  PoolSizes(const TensorView& x, const TensorView& y,
            const PoolWindows& windows)
      : images(x.shape[0]),
        height(x.shape[1]),
        width(x.shape[2]),
        channels(x.shape[3]),
        out_height(y.shape[1]),
        out_width(y.shape[2]),
        rows(windows.rows(height, out_height)),
        columns(windows.columns(width, out_width)) {}
  EA_INLINE std::int64_t image() const { return height * width * channels; }
  EA_INLINE PoolCells cells(std::int64_t i, std::int64_t j) const {
    return {rows.span(i), columns.span(j), width};
  }
};

// Calls fn(image, window, output pixel) for each output pixel, row by row.
template <typename Fn>
void for_output_rows(const PoolSizes& s, Fn&& fn) {
  const std::int64_t rows = items_per_job(s.out_width * s.channels);
  parallel_chunks(s.images * s.out_height, rows,
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t row = begin; row < end; ++row) {
                      for (std::int64_t j = 0; j < s.out_width; ++j) {
                        fn(row / s.out_height, s.cells(row % s.out_height, j),
                           row * s.out_width + j);
                      }
                    }
                  });
}

template <typename T>
void max_forward(const MaxPool2dForward::Args& args) {
  const PoolSizes s(args.x, args.y, args.windows);
  for_output_rows(
      s, [&](std::int64_t n, const PoolCells& cells, std::int64_t pixel) {
        const T* x = args.x.as<T>() + n * s.image();
        T* y = args.y.as<T>() + pixel * s.channels;
        for_vectors(s.channels, [&](std::int64_t c, auto part) {
          Vf best = set(-__builtin_inff());
          cells.each([&](std::int64_t cell, std::int64_t, std::int64_t) {
            const Vf value = load(x + cell * s.channels + c, part);
            best = value > best ? value : best;
            best = value != value ? value : best;
          });
          store(y + c, best, part);
        });
      });
}

// Calls fn(image, dx, window, dy) for each output pixel, image by image. dx
// holds floats, starts as zero and is stored when the image is done.
template <typename T, typename Fn>
void by_images(const PoolSizes& s, const TensorView& dy, const Output& dx,
               Fn&& fn) {
  parallel_for(s.images, [&](std::int64_t n) {
    const Scratch scratch(s.image() * 4);
    float* sums = scratch.as<float>();
    __builtin_memset(sums, 0, static_cast<std::size_t>(s.image()) * 4);
    const T* from = dy.as<T>() + n * s.out_height * s.out_width * s.channels;
    for (std::int64_t i = 0; i < s.out_height; ++i) {
      for (std::int64_t j = 0; j < s.out_width; ++j) {
        fn(n, sums, s.cells(i, j), from + (i * s.out_width + j) * s.channels);
      }
    }
    T* to = dx.as<T>() + n * s.image();
    for_vectors(s.image(), [&](std::int64_t k, auto part) {
      store(to + k, load(sums + k, part), part);
    });
  });
}

template <typename T>
void max_backward(const MaxPool2dBackward::Args& args) {
  const PoolSizes s(args.x, args.dy, args.windows);
  by_images<T>(
      s, args.dy, args.dx,
      [&](std::int64_t n, float* dx, const PoolCells& cells, const T* dy) {
        const T* x = args.x.as<T>() + n * s.image();
        for_vectors(s.channels, [&](std::int64_t c, auto part) {
          // Row and column are kept separately: floats count only few pixels
          // exactly.
          Vf best = set(-__builtin_inff());
          Vf row = set(static_cast<float>(cells.rows.begin));
          Vf column = set(static_cast<float>(cells.columns.begin));
          cells.each([&](std::int64_t cell, std::int64_t h, std::int64_t w) {
            const Vf value = load(x + cell * s.channels + c, part);
            const Vf u = set(static_cast<float>(h));
            const Vf v = set(static_cast<float>(w));
            row = value > best ? u : row;
            row = value != value ? u : row;
            column = value > best ? v : column;
            column = value != value ? v : column;
            best = value > best ? value : best;
            best = value != value ? value : best;
          });
          const Vf d = load(dy + c, part);
          cells.each([&](std::int64_t cell, std::int64_t h, std::int64_t w) {
            float* to = dx + cell * s.channels + c;
            const Vf before = load(to, part);
            const auto hit = (row == set(static_cast<float>(h))) &
                             (column == set(static_cast<float>(w)));
            store(to, hit ? before + d : before, part);
          });
        });
      });
}

template <typename T>
void avg_forward(const AvgPool2dForward::Args& args) {
  const PoolSizes s(args.x, args.y, args.windows);
  for_output_rows(
      s, [&](std::int64_t n, const PoolCells& cells, std::int64_t pixel) {
        const T* x = args.x.as<T>() + n * s.image();
        T* y = args.y.as<T>() + pixel * s.channels;
        const Vf factor = set(cells.part(args.padded));
        for_vectors(s.channels, [&](std::int64_t c, auto part) {
          Vf sum = set(0.0f);
          cells.each([&](std::int64_t cell, std::int64_t, std::int64_t) {
            sum = fma(load(x + cell * s.channels + c, part), factor, sum);
          });
          store(y + c, sum, part);
        });
      });
}

template <typename T>
void avg_backward(const AvgPool2dBackward::Args& args) {
  const PoolSizes s(args.dx, args.dy, args.windows);
  by_images<T>(
      s, args.dy, args.dx,
      [&](std::int64_t, float* dx, const PoolCells& cells, const T* dy) {
        const Vf factor = set(cells.part(args.padded));
        cells.each([&](std::int64_t cell, std::int64_t, std::int64_t) {
          float* to = dx + cell * s.channels;
          for_vectors(s.channels, [&](std::int64_t c, auto part) {
            store(to + c, fma(load(dy + c, part), factor, load(to + c, part)),
                  part);
          });
        });
      });
}

}  // namespace

EA_RUN(MaxPool2dForward, max_forward, x)
EA_RUN(MaxPool2dBackward, max_backward, x)
EA_RUN(AvgPool2dForward, avg_forward, x)
EA_RUN(AvgPool2dBackward, avg_backward, dy)

}  // namespace ea::simd::EA_TARGET
