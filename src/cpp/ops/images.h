// The two layouts of images, and the sizes of what windows over them give.
#pragma once

#include "autograd/var.h"

namespace ea {

// Of a side: far above any image, and sums are far from what 64 bits hold.
inline constexpr std::int64_t kMostPixels = std::int64_t{1} << 31;

// [n, channels, height, width] to [n, height, width, channels], and back. `op`
// is named in errors.
Var channels_last(const Var& x, const char* op = "channels_last");
Var channels_first(const Var& x);

// A window over one axis, for messages: "height 5, kernel 7, padding 0, ...".
struct WindowAxis {
  std::int64_t size, kernel, stride, pad, dilation;
};

// The number of places of a window inside an axis with its padding; with
// `ceiling`, also of one that reaches beyond it, if it begins inside the image
// or the padding before it. Throws ConfigError for settings out of range,
// ShapeError where the window fits nowhere.
std::int64_t places_of_window(const char* op, const char* axis,
                              const WindowAxis& window, bool ceiling = false);

}  // namespace ea
