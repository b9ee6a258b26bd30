// SIMD pooling of images, channel by channel (kernels/pool2d.h).
#include "kernels/pool2d.h"
#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// Sizes of the images and of the results.
struct PoolSizes {
  std::int64_t images, height, width, channels, out_height, out_width;

  PoolSizes(const TensorView& x, const TensorView& y)
      : images(x.shape[0]),
        height(x.shape[1]),
        width(x.shape[2]),
        channels(x.shape[3]),
        out_height(y.shape[1]),
        out_width(y.shape[2]) {}
  EA_INLINE std::int64_t image() const { return height * width * channels; }
};

// Calls fn(pixel, number of the cell) for each cell of a window inside the
// image.
template <typename Fn>
EA_INLINE void for_cells(const PoolSizes& s, const PoolWindows& p,
                         std::int64_t i, std::int64_t j, Fn&& fn) {
  for (std::int64_t u = 0; u < p.kernel_h; ++u) {
    const std::int64_t h = i * p.stride_h + u * p.dilation_h - p.pad_h;
    if (h < 0 || h >= s.height) continue;
    for (std::int64_t v = 0; v < p.kernel_w; ++v) {
      const std::int64_t w = j * p.stride_w + v * p.dilation_w - p.pad_w;
      if (w < 0 || w >= s.width) continue;
      fn(h * s.width + w, u * p.kernel_w + v);
    }
  }
}

// The factor of each cell of a mean.
EA_INLINE float part_of(const PoolSizes& s, const PoolWindows& p, bool padded,
                        std::int64_t i, std::int64_t j) {
  const PoolSpan rows = pool_span(i, p.kernel_h, p.stride_h, p.pad_h, s.height);
  const PoolSpan cols = pool_span(j, p.kernel_w, p.stride_w, p.pad_w, s.width);
  const std::int64_t counted =
      padded ? rows.all * cols.all
             : (rows.end - rows.begin) * (cols.end - cols.begin);
  return 1.0f / static_cast<float>(counted);
}

// Calls fn(image, i, j, output pixel) for each output pixel, row by row.
template <typename Fn>
void for_output_rows(const PoolSizes& s, Fn&& fn) {
  const std::int64_t rows = items_per_job(s.out_width * s.channels);
  parallel_chunks(s.images * s.out_height, rows,
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t row = begin; row < end; ++row) {
                      for (std::int64_t j = 0; j < s.out_width; ++j) {
                        fn(row / s.out_height, row % s.out_height, j,
                           row * s.out_width + j);
                      }
                    }
                  });
}

template <typename T>
void max_forward(const MaxPool2dForward::Args& args) {
  const PoolSizes s(args.x, args.y);
  for_output_rows(s, [&](std::int64_t n, std::int64_t i, std::int64_t j,
                         std::int64_t pixel) {
    const T* x = args.x.as<T>() + n * s.image();
    T* y = args.y.as<T>() + pixel * s.channels;
    for_vectors(s.channels, [&](std::int64_t c, auto part) {
      Vf best = set(-__builtin_inff());
      for_cells(s, args.windows, i, j, [&](std::int64_t cell, std::int64_t) {
        const Vf value = load(x + cell * s.channels + c, part);
        best = value > best ? value : best;
        best = value != value ? value : best;
      });
      store(y + c, best, part);
    });
  });
}

// Calls fn(x, dx, i, j, dy) for each output pixel, image by image: dx, of
// floats, starts with 0 and is stored when the image is done.
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
        fn(n, sums, i, j, from + (i * s.out_width + j) * s.channels);
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
  const PoolSizes s(args.x, args.dy);
  by_images<T>(
      s, args.dy, args.dx,
      [&](std::int64_t n, float* dx, std::int64_t i, std::int64_t j,
          const T* dy) {
        const T* x = args.x.as<T>() + n * s.image();
        for_vectors(s.channels, [&](std::int64_t c, auto part) {
          Vf best = set(-__builtin_inff()), which = set(-1.0f);
          for_cells(s, args.windows, i, j,
                    [&](std::int64_t cell, std::int64_t number) {
                      const Vf value = load(x + cell * s.channels + c, part);
                      const Vf mine = set(static_cast<float>(number));
                      const auto first = which < set(0.0f);
                      which = first ? mine : which;
                      which = value > best ? mine : which;
                      which = value != value ? mine : which;
                      best = value > best ? value : best;
                      best = value != value ? value : best;
                    });
          const Vf d = load(dy + c, part);
          for_cells(s, args.windows, i, j,
                    [&](std::int64_t cell, std::int64_t number) {
                      float* to = dx + cell * s.channels + c;
                      const Vf mine = set(static_cast<float>(number));
                      const Vf before = load(to, part);
                      store(to, which == mine ? before + d : before, part);
                    });
        });
      });
}

template <typename T>
void avg_forward(const AvgPool2dForward::Args& args) {
  const PoolSizes s(args.x, args.y);
  for_output_rows(s, [&](std::int64_t n, std::int64_t i, std::int64_t j,
                         std::int64_t pixel) {
    const T* x = args.x.as<T>() + n * s.image();
    T* y = args.y.as<T>() + pixel * s.channels;
    const Vf factor = set(part_of(s, args.windows, args.padded, i, j));
    for_vectors(s.channels, [&](std::int64_t c, auto part) {
      Vf sum = set(0.0f);
      for_cells(s, args.windows, i, j, [&](std::int64_t cell, std::int64_t) {
        sum = fma(load(x + cell * s.channels + c, part), factor, sum);
      });
      store(y + c, sum, part);
    });
  });
}

template <typename T>
void avg_backward(const AvgPool2dBackward::Args& args) {
  const PoolSizes s(args.dx, args.dy);
  by_images<T>(
      s, args.dy, args.dx,
      [&](std::int64_t, float* dx, std::int64_t i, std::int64_t j,
          const T* dy) {
        const Vf factor = set(part_of(s, args.windows, args.padded, i, j));
        for_cells(s, args.windows, i, j, [&](std::int64_t cell, std::int64_t) {
          float* to = dx + cell * s.channels;
          for_vectors(s.channels, [&](std::int64_t c, auto part) {
            store(to + c, fma(load(dy + c, part), factor, load(to + c, part)),
                  part);
          });
        });
      });
}

}  // namespace

template <>
void run<MaxPool2dForward>(const MaxPool2dForward::Args& args) {
  if (args.x.dtype == DType::bf16) return max_forward<bfloat16>(args);
  max_forward<float>(args);
}

template <>
void run<MaxPool2dBackward>(const MaxPool2dBackward::Args& args) {
  if (args.x.dtype == DType::bf16) return max_backward<bfloat16>(args);
  max_backward<float>(args);
}

template <>
void run<AvgPool2dForward>(const AvgPool2dForward::Args& args) {
  if (args.x.dtype == DType::bf16) return avg_forward<bfloat16>(args);
  avg_forward<float>(args);
}

template <>
void run<AvgPool2dBackward>(const AvgPool2dBackward::Args& args) {
  if (args.dy.dtype == DType::bf16) return avg_backward<bfloat16>(args);
  avg_backward<float>(args);
}

}  // namespace ea::simd::EA_TARGET
