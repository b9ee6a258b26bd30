// The inputs of an encoder-decoder: source and target, before packing.
#pragma once

#include <vector>

#include "models/text_inputs.h"

namespace ea {

const std::vector<InputSpec>& transformer_input_specs();

TextInputs source_inputs(const Inputs& inputs);

// The decoder's inputs. Without decoder_input_ids they are the labels, shifted
// one to the right behind `start`; -100 becomes `padding`, and in padded arrays
// the positions from which on nothing is to be predicted count as padding,
// unless there is a decoder_attention_mask. Throws InputError if there are
// neither ids nor labels.
TextInputs target_inputs(const Inputs& inputs, std::int64_t start,
                         std::int64_t padding);

}  // namespace ea
