// The inputs of an encoder-decoder: source and target, before packing.
#pragma once

#include <vector>

#include "models/text_inputs.h"

namespace ea {

const std::vector<InputSpec>& transformer_input_specs();

TextInputs source_inputs(const Inputs& inputs);

// Returns the decoder's inputs. Without decoder_input_ids, they are the labels,
// shifted right by one after `start`; -100 becomes `padding`. In padded arrays,
// positions after the last label then count as padding, unless there is a
// decoder_attention_mask. Throws InputError if there are neither ids nor
// labels.
TextInputs target_inputs(const Inputs& inputs, std::int64_t start,
                         std::int64_t padding);

}  // namespace ea
