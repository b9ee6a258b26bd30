// Checks of images and of their labels.
#include "models/image_inputs.h"

#include "models/heads.h"
#include "ops/arithmetic.h"
#include "runtime/check.h"
#include "tensor/finite.h"

namespace ea {

namespace {

void check_shape(const Shape& shape, const ImageLimits& limits) {
  EA_CHECK(shape.rank() == 4, "forward",
           "pixel_values has shape {}, expected (images, channels, height, "
           "width); one image is x[None]",
           shape);
  const bool last = shape[3] == limits.channels;
  EA_CHECK(
      shape[1] == limits.channels, "forward",
      "pixel_values has shape {}: {} channels in axis 1, this model takes "
      "{} (num_channels){}",
      shape, shape[1], limits.channels,
      last ? "; if they are the last axis, pass x.transpose(0, 3, 1, 2)" : "");
  EA_CHECK_AS(InputError, shape[0] > 0, "forward",
              "pixel_values has no image; expected at least one");
  const std::int64_t height = shape[2], width = shape[3];
  const bool any_height = limits.height == 0, any_width = limits.width == 0;
  EA_CHECK_AS(InputError,
              (any_height || height == limits.height) &&
                  (any_width || width == limits.width),
              "forward",
              "pixel_values are images of {} x {} pixels (height x width), "
              "this model takes {} x {} (image_size); resize them",
              height, width, limits.height, limits.width);
  EA_CHECK_AS(InputError,
              height >= limits.least_height && width >= limits.least_width,
              "forward",
              "pixel_values are images of {} x {} pixels (height x width), "
              "this model takes {} x {} or more; enlarge them",
              height, width, limits.least_height, limits.least_width);
}

void check_finite(const Tensor& pixels) {
  const Tensor x = to_device(contiguous(pixels), kCpu);
  const std::int64_t i = first_not_finite(x);
  if (i < 0) return;
  const std::int64_t w = i % x.dim(3), h = i / x.dim(3) % x.dim(2);
  const std::int64_t c = i / x.dim(3) / x.dim(2) % x.dim(1);
  fail<InputError>("forward",
                   "pixel_values[{}, {}, {}, {}] is {}: expected finite "
                   "numbers; leave the image out, or mend it",
                   i / (x.numel() / x.dim(0)), c, h, w,
                   cast(x, DType::f64).data<double>()[i]);
}

}  // namespace

const std::vector<InputSpec>& image_input_specs() {
  using enum InputKind;
  static const std::vector<InputSpec> specs{
      {"pixel_values", pixels, true,
       "numbers [B, channels, height, width], usually scaled to mean 0 and "
       "deviation 1; integers are not scaled."},
      {"labels", labels, true,
       "[B] classes; [B] values where num_labels is 1; [B, num_labels] of 0 "
       "and 1 for several labels per image."},
  };
  return specs;
}

ImageInputs image_inputs(const Inputs& given) {
  ImageInputs in;
  in.pixel_values = given.var("pixel_values");
  EA_CHECK_AS(InputError, in.pixel_values.defined(), "forward",
              "pixel_values is None; expected an array (images, channels, "
              "height, width)");
  in.labels = given.array("labels");
  in.label_smoothing = given.label_smoothing;
  in.wanted = given.wanted;
  return in;
}

Var checked_pixels(const ImageInputs& inputs, const ImageLimits& limits) {
  const Var& x = inputs.pixel_values;
  check_shape(x.shape(), limits);
  const Var pixels = x.dtype() == limits.dtype ? x : cast(x, limits.dtype);
  check_finite(pixels.data());
  return to_device(pixels, limits.device);
}

Var image_loss(const Var& logits, const ImageInputs& inputs) {
  if (!inputs.labels.defined()) return {};
  return row_loss(logits, inputs.labels, inputs.label_smoothing, "images");
}

void refuse_labels(const ImageInputs& inputs) {
  EA_CHECK_AS(InputError, !inputs.labels.defined(), "forward",
              "labels is given, expected none: a model without a task has no "
              "loss; leave it out");
  EA_CHECK_AS(ConfigError, inputs.label_smoothing == 0.0, "forward",
              "label_smoothing {} is for classes, which a model without a task "
              "has not; leave it out",
              inputs.label_smoothing);
}

}  // namespace ea
