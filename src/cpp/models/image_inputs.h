// The inputs of an image model, and their checks.
#pragma once

#include "models/inputs.h"

namespace ea {

// Inputs as the caller gives them; omitted ones are undefined.
struct ImageInputs {
  Var pixel_values;  // [B, C, H, W]
  Tensor labels;
  double label_smoothing = 0.0;
  Wanted wanted;
};

// The inputs that image models declare, and their values in a call.
const std::vector<InputSpec>& image_input_specs();
ImageInputs image_inputs(const Inputs& inputs);

// The images that a model accepts.
struct ImageLimits {
  std::int64_t channels = 0;
  std::int64_t height = 0, width = 0;              // 0: any
  std::int64_t least_height = 1, least_width = 1;  // where any size is accepted
  DType dtype = DType::f32;
  Device device = kCpu;  // device of the weights
};

// Returns the pixels in the model's type, on its device. Throws ShapeError or
// InputError that names the argument, the index and the limit; pixels must be
// finite.
Var checked_pixels(const ImageInputs& inputs, const ImageLimits& limits);

// Returns the loss for labels of whole images, as sequence_loss() in heads.h;
// undefined without labels.
Var image_loss(const Var& logits, const ImageInputs& inputs);

// Throws InputError if there are labels; for models without a task.
void refuse_labels(const ImageInputs& inputs);

}  // namespace ea
