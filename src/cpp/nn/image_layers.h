// Image layers, channels last: convolution, pooling and resizing.
#pragma once

#include <cmath>
#include <utility>

#include "nn/layers.h"
#include "nn/module.h"
#include "ops/conv2d.h"
#include "ops/images.h"

namespace ea {

// Square kernel, padded so that an odd kernel with stride 1 keeps the image
// size.
struct Conv2dConfig {
  std::int64_t in = 0, out = 0, kernel = 3, stride = 1;
  DType dtype = DType::f32;
};

// Convolution without bias, since a norm follows. Initial values N(0, 2 /
// fan_out) (He et al., ICCV 2015).
class Conv2d : public Module {
 public:
  explicit Conv2d(const Conv2dConfig& c)
      : weight_(add_parameter(
            "weight", {c.out, c.in, c.kernel, c.kernel}, c.dtype,
            Init::normal(std::sqrt(
                2.0 / static_cast<double>(c.out * c.kernel * c.kernel))))),
        taps_{c.stride, c.stride, c.kernel / 2, c.kernel / 2, 1, 1, 1} {}
  Var operator()(const Var& x) const { return conv2d(x, weight_, {}, taps_); }
  // The convolution fused with the norm, residual and ReLU that follow it in
  // evaluation; see conv2d_mapped().
  Var mapped(const Var& x, const ChannelMap& map, Var residual,
             bool rectify) const {
    return conv2d_mapped(x, weight_, taps_, map, std::move(residual), rectify);
  }
  Device device() const { return weight_.device(); }

 private:
  Var weight_;
  Conv2dTaps taps_;
};

// Max pooling: 3 x 3 windows, stride 2, padding 1.
Var halved_by_maximum(const Var& x);
// Average pooling: 3 x 3 windows, stride 2, padding as TensorFlow's SAME. Even
// sizes are padded only at the end, and a mean counts only the pixels inside
// the image.
Var halved_by_mean(const Var& x);
// Average pooling: 2 x 2 windows, stride 2.
Var mean_of_fours(const Var& x);
// Doubles height and width by linear interpolation: pixel 2 i is pixel i of x,
// pixel 2 i + 1 the mean of pixels i and i + 1. The border repeats the last
// pixel.
Var doubled(const Var& x);
// Returns the mean of each image's pixels, [n, channels].
Var mean_of_pixels(const Var& x);

}  // namespace ea
