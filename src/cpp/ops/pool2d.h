// Pooling of images, channels last.
#pragma once

#include "autograd/var.h"
#include "kernels/pool2d.h"

namespace ea {

// y[n, i, j, c] = the maximum (mean) of the pixels of window (i, j) inside the
// image: rows i stride_h + u dilation_h - pad_h, columns likewise. x [n,
// height, width, channels]. ceiling: also keeps windows that reach beyond the
// padding if they begin inside the image or the padding before it. Padding is
// at most half of the window. counts_padding: the mean also divides by the
// number of padding cells.
Var max_pool2d(const Var& x, const PoolWindows& windows, bool ceiling = false);
Var avg_pool2d(const Var& x, const PoolWindows& windows, bool ceiling = false,
               bool counts_padding = true);

// Maximum (mean) of height x width windows that divide the image. Window i
// along the height has rows floor(i H / height) up to ceil((i + 1) H / height),
// exclusive; columns likewise. Neighbouring windows may share pixels.
Var adaptive_max_pool2d(const Var& x, std::int64_t height, std::int64_t width);
Var adaptive_avg_pool2d(const Var& x, std::int64_t height, std::int64_t width);

}  // namespace ea
