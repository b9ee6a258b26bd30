// Small modules of images, channels last: convolution, and functions without
// parameters.
#pragma once

#include <cmath>
#include <utility>

#include "nn/layers.h"
#include "nn/module.h"
#include "ops/conv2d.h"
#include "ops/images.h"

namespace ea {

// A square kernel, padded so that stride 1 keeps the size of odd kernels.
struct Conv2dConfig {
  std::int64_t in = 0, out = 0, kernel = 3, stride = 1;
  DType dtype = DType::f32;
};

// Without bias: a norm follows. He et al.'s initial values (ICCV 2015): N(0, 2
// / fan_out).
class Conv2d : public Module {
 public:
  explicit Conv2d(const Conv2dConfig& c)
      : weight_(add_parameter(
            "weight", {c.out, c.in, c.kernel, c.kernel}, c.dtype,
            Init::normal(std::sqrt(
                2.0 / static_cast<double>(c.out * c.kernel * c.kernel))))),
        taps_{c.stride, c.stride, c.kernel / 2, c.kernel / 2, 1, 1, 1} {}
  Var operator()(const Var& x) const { return conv2d(x, weight_, {}, taps_); }
  // With what follows it in evaluation: see conv2d_mapped().
  Var mapped(const Var& x, const ChannelMap& map, Var residual,
             bool rectify) const {
    return conv2d_mapped(x, weight_, taps_, map, std::move(residual), rectify);
  }
  Device device() const { return weight_.device(); }

 private:
  Var weight_;
  Conv2dTaps taps_;
};

// 3 x 3 windows, 2 apart: the greatest pixel, one pixel beyond each border.
Var halved_by_maximum(const Var& x);
// The same of means: TensorFlow's SAME, which pads even sizes behind the image
// alone and divides by the number of pixels inside it.
Var halved_by_mean(const Var& x);
// Windows of 2 x 2, 2 apart.
Var mean_of_fours(const Var& x);
// Twice the height and width, linearly between neighbours: pixel 2 i is pixel i
// of x, 2 i + 1 the mean of i and i + 1, and of the last alone at the border.
Var doubled(const Var& x);
// [n, channels]
Var mean_of_pixels(const Var& x);

}  // namespace ea
