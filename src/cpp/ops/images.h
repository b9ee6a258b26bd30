// The two layouts of images, and the number of window positions along an axis.
#pragma once

#include "autograd/var.h"

namespace ea {

// Upper bound of an image side: far above any image, and sums stay far below
// the range of 64 bits.
inline constexpr std::int64_t kMostPixels = std::int64_t{1} << 31;

// Converts [n, channels, height, width] to [n, height, width, channels], and
// back. Errors name `op`.
Var channels_last(const Var& x, const char* op = "channels_last");
Var channels_first(const Var& x);

// A window along one axis of an image.
struct WindowAxis {
  std::int64_t size, kernel, stride, pad, dilation;
};

// Returns the number of window positions inside an axis with its padding.
// `ceiling` also counts a window that reaches beyond the padding if it begins
// inside the image or the padding before it. Throws ConfigError for settings
// out of range, ShapeError if the window fits nowhere.
std::int64_t places_of_window(const char* op, const char* axis,
                              const WindowAxis& window, bool ceiling = false);

}  // namespace ea
