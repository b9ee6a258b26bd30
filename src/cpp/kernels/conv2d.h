// Contract: convolution of images, channels last.
#pragma once

#include <cstdint>

#include "tensor/storage.h"
#include "tensor/tensor_view.h"

namespace ea {

// Pixels that a tap reads: tap (u, v) of output pixel (i, j) reads pixel
// (i stride_h + u dilation_h - pad_h, j stride_w + v dilation_w - pad_w), or
// zero if that pixel is outside the image. Channels form `groups` equal groups;
// an output channel reads the input channels of its own group. Strides,
// dilations and groups are at least 1, padding at least 0.
struct Conv2dTaps {
  std::int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups;
};

// y[n, i, j, o] = bias[o] + sum_{c, u, v} weight[o, c, u, v] x[n, tap (u, v) of
// (i, j), channel c of o's group]. x [images, height, width, in], weight [out,
// in / groups, kernel height, kernel width], bias [out] or none, y [images, out
// height, out width, out]: contiguous, of one dtype. Sums are in float32
// (float64 for float64). An image has bit-identical results alone and in a
// batch.
// If scale and shift are given, both [out] in the type of the sums,
// y = scale y' + shift + residual, where y' is the sum above; `rectify` then
// replaces y by max(y, 0). residual has the shape of y and may be y itself.
// This is a convolution followed by a norm in evaluation. On the CPU, the
// weight must then be finite, since max() may turn NaN into 0; otherwise throws
// InputError.
// kept_weight: storage of the weight if it is fixed; an implementation may
// cache data derived from the weight there (Storage::keep).
struct Conv2dForward {
  static constexpr const char* name = "conv2d_forward";
  struct Args {
    TensorView x, weight;
    TensorView bias;  // optional, not with a scale
    Output y;
    Conv2dTaps taps;
    const Storage* kept_weight = nullptr;
    TensorView scale = {}, shift = {};  // optional, both or neither
    TensorView residual = {};           // optional, with a scale
    bool rectify = false;               // with a scale
  };
};

// Throws InputError if an element of the weight is not finite. Reads the whole
// weight: call it when data is derived from the weight, not in every pass.
void check_finite_weight(const TensorView& weight);

// Computes dx and dweight of Conv2dForward, fully written; an undefined output
// is not computed. dbias is the sum of the rows of dy, computed elsewhere. Sums
// over images reduce fixed groups of images in order.
struct Conv2dBackward {
  static constexpr const char* name = "conv2d_backward";
  struct Args {
    TensorView dy, x, weight;
    Output dx, dweight;  // each optional
    Conv2dTaps taps;
  };
};

}  // namespace ea
