// Convolution of images (LeCun et al., 1989), channels last.
#pragma once

#include "autograd/var.h"
#include "kernels/conv2d.h"
#include "ops/batch_norm.h"

namespace ea {

// y[n, i, j, o] = bias[o] + sum_{c, u, v} weight[o, c, u, v] x[n, i stride_h +
// u dilation_h - pad_h, j stride_w + v dilation_w - pad_w, c], where pixels
// outside the image are zero. With groups, output channel o reads only the
// input channels of its group. x [n, height, width, in], weight [out, in /
// groups, kernel height, kernel width], bias [out] or undefined; y [n, out
// height, out width, out]. For kernels larger than 1 x 1, the result of an
// image has the same bits in any batch.
Var conv2d(const Var& x, const Var& weight, const Var& bias,
           const Conv2dTaps& taps);

// Computes scale conv2d(x) + shift + residual per channel, or max(0, that sum)
// with `rectify`, in one pass and without gradient. residual may be undefined;
// the result overwrites it if nothing else holds it. The result of an image has
// the same bits in any batch. Throws InputError if the weight is not finite.
Var conv2d_mapped(const Var& x, const Var& weight, const Conv2dTaps& taps,
                  const ChannelMap& map, Var residual, bool rectify);

}  // namespace ea
