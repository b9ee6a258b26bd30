// Contract: convolution of images, channels last.
#pragma once

#include <cstdint>

#include "tensor/storage.h"
#include "tensor/tensor_view.h"

namespace ea {

// Which pixels a tap reads: tap (u, v) of output pixel (i, j) reads pixel (i
// stride_h + u dilation_h - pad_h, j stride_w + v dilation_w - pad_w), and zero
// where that lies outside the image. Output channel o of `groups` equal groups
// reads the input channels of its own group. Strides, dilations and groups are
// at least 1, padding at least 0.
struct Conv2dTaps {
  std::int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups;
};

// y[n, i, j, o] = bias[o] + sum_{c, u, v} weight[o, c, u, v] x[n, tap (u, v) of
// (i, j), channel c of o's group]. x [images, height, width, in], weight [out,
// in / groups, kernel height, kernel width], bias [out] or none, y [images, out
// height, out width, out]; contiguous, of one dtype; sums in float32 (float64
// for float64). An image alone has the bits it has in a batch.
// With scale and shift, both [out] of the sums' type, y = scale y' + shift +
// residual where y' is the above, or max(that, 0) with `rectify`; residual has
// the shape of y, and may be y itself. So does a norm behind a convolution in
// evaluation. On the CPU such a weight must be finite, since max() may make 0
// of NaN: throws InputError. kept_weight: the storage of the weight, where it
// is fixed: what an implementation makes of it may be kept there
// (Storage::keep).
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

// Throws InputError if a number of the weight is not finite. Searches all of
// it: for where something is made of the weight, not for every pass.
void check_finite_weight(const TensorView& weight);

// dx and dweight of the above, fully written; one left undefined is not
// computed. dbias is the sum of the rows of dy. Sums over images combine fixed
// groups of images in order.
struct Conv2dBackward {
  static constexpr const char* name = "conv2d_backward";
  struct Args {
    TensorView dy, x, weight;
    Output dx, dweight;  // each optional
    Conv2dTaps taps;
  };
};

}  // namespace ea
