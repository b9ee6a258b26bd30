// Sequence classifier: two affine maps of the first token.
#pragma once

#include <memory>

#include "models/linear_tasks.h"

namespace ea {

// y = V drop(tanh(W drop(x) + b)) + c with x the first token's hidden state, as
// in RoBERTa. W has classifier_hidden_size rows, by default the model's width.
std::unique_ptr<Model> make_deep_classifier(const TextFamily& family,
                                            const ModelConfig& config);

}  // namespace ea
