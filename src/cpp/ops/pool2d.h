// Pooling of images, channels last.
#pragma once

#include "autograd/var.h"
#include "kernels/pool2d.h"

namespace ea {

// y[n, i, j, c] = the greatest (the mean) of the pixels of window (i, j): those
// at i stride_h + u dilation_h - pad_h, likewise of the width, that lie inside
// the image. x [n, height, width, channels]. ceiling: windows that reach beyond
// the padding are kept where they begin before it. Padding is at most half of
// the window. counts_padding: the mean divides by the padding's cells too.
Var max_pool2d(const Var& x, const PoolWindows& windows, bool ceiling = false);
Var avg_pool2d(const Var& x, const PoolWindows& windows, bool ceiling = false,
               bool counts_padding = true);

// The greatest (the mean) of height x width windows that divide the image: row
// i of them has pixels floor(i H / height) up to ceil((i + 1) H / height),
// likewise columns; neighbours may share pixels.
Var adaptive_max_pool2d(const Var& x, std::int64_t height, std::int64_t width);
Var adaptive_avg_pool2d(const Var& x, std::int64_t height, std::int64_t width);

}  // namespace ea
