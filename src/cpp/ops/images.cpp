// Converts between image layouts and counts the positions of windows.
#include "ops/images.h"

#include "autograd/node.h"
#include "runtime/check.h"

namespace ea {

namespace {

Tensor as_channels_last(const Tensor& x) {
  return contiguous(transpose_view(transpose_view(x, 1, 2), 2, 3));
}

Tensor as_channels_first(const Tensor& x) {
  return contiguous(transpose_view(transpose_view(x, 2, 3), 1, 2));
}

void check_images(const char* op, const Var& x, const char* expected) {
  EA_CHECK(x.rank() == 4, op, "input has shape {}, expected images ({})",
           x.shape(), expected);
}

void check_setting(const char* op, const char* axis, const char* setting,
                   std::int64_t value, std::int64_t least) {
  EA_CHECK_AS(ConfigError, value >= least && value < kMostPixels, op,
              "{} {} along the {}, expected {} or more, below {}", setting,
              value, axis, least, kMostPixels);
}

}  // namespace

Var channels_last(const Var& x, const char* op) {
  check_images(op, x, "n, channels, height, width");
  return record("channels_last", as_channels_last(x.data()), {x}, {},
                [](const Node&, const Tensor& dy) {
                  return Node::Gradients{as_channels_first(dy)};
                });
}

Var channels_first(const Var& x) {
  check_images("channels_first", x, "n, height, width, channels");
  return record("channels_first", as_channels_first(x.data()), {x}, {},
                [](const Node&, const Tensor& dy) {
                  return Node::Gradients{as_channels_last(dy)};
                });
}

std::int64_t places_of_window(const char* op, const char* axis,
                              const WindowAxis& w, bool ceiling) {
  check_setting(op, axis, "kernel", w.kernel, 1);
  check_setting(op, axis, "stride", w.stride, 1);
  check_setting(op, axis, "padding", w.pad, 0);
  check_setting(op, axis, "dilation", w.dilation, 1);
  const std::int64_t span = (w.kernel - 1) * w.dilation + 1;
  const std::int64_t rest = w.size + 2 * w.pad - span;
  // With `ceiling` one window may reach past the border.
  EA_CHECK(w.size >= 1 && (ceiling ? rest > -w.stride : rest >= 0), op,
           "a window of {} pixels does not fit into the {} {} with padding {} "
           "on either side; use larger images, more padding or a smaller "
           "kernel",
           span, axis, w.size, w.pad);
  if (!ceiling) return rest / w.stride + 1;
  const std::int64_t places = (rest + w.stride - 1) / w.stride + 1;
  const bool begins_inside = (places - 1) * w.stride < w.size + w.pad;
  return begins_inside ? places : places - 1;
}

}  // namespace ea
