// The two layouts of images, and the sizes of what windows over them give.
#pragma once

#include "autograd/var.h"

namespace ea {

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
