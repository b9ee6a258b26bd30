// Reference convolution of images: the definition, pixel by pixel.
#include "kernels/conv2d.h"

#include <vector>

#include "kernels/ref/run.h"
#include "kernels/ref/taps.h"
#include "kernels/ref/wide.h"
#include "runtime/check.h"

namespace ea::ref {

namespace {

// Sizes of one group, and of the images.
struct ConvSizes {
  std::int64_t images, height, width, in, out_height, out_width, out;
  std::int64_t group_in, group_out, kernel_h, kernel_w;
  Conv2dTaps taps;

  ConvSizes(const TensorView& x, const TensorView& weight, const TensorView& y,
            const Conv2dTaps& taps)
      : images(x.dim(0)),
        height(x.dim(1)),
        width(x.dim(2)),
        in(x.dim(3)),
        out_height(y.dim(1)),
        out_width(y.dim(2)),
        out(y.dim(3)),
        group_in(weight.dim(1)),
        group_out(out / taps.groups),
        kernel_h(weight.dim(2)),
        kernel_w(weight.dim(3)),
        taps(taps) {}

  // Calls fn(output pixel, input pixel, tap) for each tap that reads a pixel.
  template <typename Fn>
  void for_taps(Fn&& fn) const {
    for (std::int64_t row = 0; row < images * out_height; ++row) {
      const std::int64_t n = row / out_height;
      for (std::int64_t j = 0; j < out_width; ++j) {
        for (std::int64_t tap = 0; tap < kernel_h * kernel_w; ++tap) {
          const std::int64_t h = row % out_height * taps.stride_h +
                                 tap / kernel_w * taps.dilation_h - taps.pad_h;
          const std::int64_t w =
              j * taps.stride_w + tap % kernel_w * taps.dilation_w - taps.pad_w;
          if (h < 0 || h >= height || w < 0 || w >= width) continue;
          fn(row * out_width + j, (n * height + h) * width + w, tap);
        }
      }
    }
  }
};

template <typename T>
void conv2d_of(const Conv2dForward::Args& args) {
  using A = Accumulator<T>;
  if (args.scale.defined()) check_finite_weight(args.weight);
  const ConvSizes s(args.x, args.weight, args.y, args.taps);
  const std::vector<A> weight = by_taps<T>(args.weight, s.taps.groups, true);
  const std::int64_t matrix = s.group_in * s.group_out;
  const std::int64_t cells = s.kernel_h * s.kernel_w;
  std::vector<A> y(static_cast<std::size_t>(args.y.numel()));
  s.for_taps([&](std::int64_t to, std::int64_t from, std::int64_t tap) {
    for (std::int64_t g = 0; g < s.taps.groups; ++g) {
      add_product(args.x.as<T>() + from * s.in + g * s.group_in,
                  weight.data() + (g * cells + tap) * matrix, s.group_in,
                  s.group_out, y.data() + to * s.out + g * s.group_out);
    }
  });
  for (std::int64_t i = 0; i < args.y.numel(); ++i) {
    const A bias = args.bias.defined() ? A(args.bias.as<T>()[i % s.out]) : A(0);
    A sum = y[static_cast<std::size_t>(i)] + bias;
    if (args.scale.defined()) {
      const std::int64_t o = i % s.out;
      sum = sum * args.scale.as<A>()[o] + args.shift.as<A>()[o];
      if (args.residual.defined()) sum += A(args.residual.as<T>()[i]);
      if (args.rectify && sum < 0) sum = A(0);
    }
    args.y.as<T>()[i] = T(sum);
  }
}

// y[to, o] reads x[from, c] by weight[o, c, tap], so
//   dx[from, c] += dy[to, o] weight[o, c, tap],
//   dweight[o, c, tap] += dy[to, o] x[from, c].
template <typename T>
void conv2d_gradients_of(const Conv2dBackward::Args& args) {
  using A = Accumulator<T>;
  const ConvSizes s(args.x, args.weight, args.dy, args.taps);
  const std::vector<A> weight = by_taps<T>(args.weight, s.taps.groups, false);
  const std::int64_t cells = s.kernel_h * s.kernel_w;
  std::vector<A> dx(static_cast<std::size_t>(args.x.numel()));
  std::vector<A> dweight(weight.size());  // [groups, taps, group_out, group_in]
  s.for_taps([&](std::int64_t to, std::int64_t from, std::int64_t tap) {
    for (std::int64_t g = 0; g < s.taps.groups; ++g) {
      const T* dy = args.dy.as<T>() + to * s.out + g * s.group_out;
      const T* x = args.x.as<T>() + from * s.in + g * s.group_in;
      const std::int64_t matrix = (g * cells + tap) * s.group_out * s.group_in;
      add_product(dy, weight.data() + matrix, s.group_out, s.group_in,
                  dx.data() + from * s.in + g * s.group_in);
      for (std::int64_t o = 0; o < s.group_out; ++o) {
        A* sums = dweight.data() + matrix + o * s.group_in;
        const A d = A(dy[o]);
        for (std::int64_t c = 0; c < s.group_in; ++c) sums[c] += d * A(x[c]);
      }
    }
  });
  if (args.dx.defined()) write_wide<T>(dx, args.dx);
  if (args.dweight.defined()) {
    write_taps<T>(dweight, args.dweight, s.taps.groups);
  }
}

}  // namespace

EA_RUN_REF(Conv2dForward, conv2d_of, x)
EA_RUN_REF(Conv2dBackward, conv2d_gradients_of, x)

}  // namespace ea::ref
