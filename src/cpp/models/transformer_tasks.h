// The tasks of encoder-decoders: hidden states, and the next target token.
#pragma once

#include "models/transformer.h"
#include "models/transformer_inputs.h"

namespace ea {

// The model for the option "head": base, or seq2seq_lm. Throws ConfigError.
std::unique_ptr<Model> make_transformer(const ModelConfig& config,
                                        const TransformerDesign& design);

}  // namespace ea
