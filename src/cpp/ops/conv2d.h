// Convolution of images (LeCun et al., 1989), channels last.
#pragma once

#include "autograd/var.h"
#include "kernels/conv2d.h"
#include "ops/batch_norm.h"

namespace ea {

// y[n, i, j, o] = bias[o] + sum_{c, u, v} weight[o, c, u, v] x[n, i stride_h +
// u dilation_h - pad_h, j stride_w + v dilation_w - pad_w, c], pixels outside
// the image being zero; with groups, channel o sees those of its own group. x
// [n, height, width, in], weight [out, in / groups, kernel height, kernel
// width], bias [out] or undefined; y [n, out height, out width, out]. With a
// kernel larger than 1 x 1, an image alone has the bits that it has in a batch.
Var conv2d(const Var& x, const Var& weight, const Var& bias,
           const Conv2dTaps& taps);

// scale conv2d(x) + shift + residual of each channel, or max(that, 0) with
// `rectify`, in one pass and without a gradient; residual may be undefined,
// and the result takes its place if nothing else holds it. An image alone has
// the bits that it has in a batch. Throws InputError if the weight is not
// finite.
Var conv2d_mapped(const Var& x, const Var& weight, const Conv2dTaps& taps,
                  const ChannelMap& map, Var residual, bool rectify);

}  // namespace ea
