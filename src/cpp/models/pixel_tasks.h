// Tasks of image networks without a class token: features and classes.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "models/image_inputs.h"
#include "models/model.h"
#include "nn/blocks/stack.h"

namespace ea {

struct EncodedPixels {
  Var last;                   // [n, height, width, channels]
  std::map<int, Var> stages;  // requested: 0 the stem, i the stage i - 1
  KeptMaps maps;              // requested
};

// An image network without its task.
class PixelBody : public Module {
 public:
  virtual EncodedPixels forward(const ImageInputs& inputs) = 0;
  virtual std::int64_t width() const = 0;  // channels of the last stage
};

// Returns the model for the config's "head": "base", or "image_classification"
// with the options num_labels and classifier_dropout. `name` is the body's name
// in checkpoints. Throws ConfigError.
std::unique_ptr<Model> pixel_model(const std::string& name,
                                   std::unique_ptr<PixelBody> body,
                                   const ModelConfig& config);

}  // namespace ea
