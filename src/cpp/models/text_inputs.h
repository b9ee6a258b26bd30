// What a text model is given, before and after packing.
#pragma once

#include <vector>

#include "autograd/var.h"
#include "models/inputs.h"
#include "models/packed_rows.h"

namespace ea {

// As the caller has it: either padded [B, T] arrays with an optional mask, or
// packed [total] arrays with offsets. Undefined tensors were left out. On any
// device; they are read, checked and packed on the CPU.
struct TextInputs {
  Tensor input_ids;         // int64
  Tensor attention_mask;    // int64 [B, T], 1: a token, 0: padding
  Tensor token_type_ids;    // int64, shape of input_ids
  Tensor position_ids;      // int64, shape of input_ids
  Tensor sequence_offsets;  // int64 [B + 1], packed form
  Tensor labels;
  Tensor next_sentence_label;
  double label_smoothing = 0.0;
  Wanted wanted;
};

// The inputs that models of text declare, and these of what was given.
const std::vector<InputSpec>& text_input_specs();
TextInputs text_inputs(const Inputs& inputs);

// As the model computes: one row a token, no padding. All on the CPU: the ops
// that take indices bring them to the device of the weights.
struct PackedText : PackedRows {
  Tensor input_ids, token_type_ids, position_ids;  // int64 [total]
  Tensor first_rows;  // int64 [B]: each sequence's first token
};

// How a model numbers positions when the caller does not.
struct PositionRule {
  std::int64_t max_positions = 0;
  // -1: 0, 1, 2, ... by column (BERT). Otherwise RoBERTa's rule: padding_id + 1
  // and on for the ids that are not padding_id; padding_id for those that are.
  std::int64_t padding_id = -1;
};

// Checks shapes, masks and lengths and packs. Throws ShapeError or InputError
// that names the argument, the place and the limit.
PackedText pack(const TextInputs& inputs, std::int64_t heads,
                const PositionRule& rule);

// Checks that packed token values lie in 0 .. size - 1, or are `ignored`.
// Throws InputError with the place in the caller's array and the setting
// `limit`.
void check_ids(const PackedText& text, const char* name, const Tensor& ids,
               std::int64_t size, const char* limit, std::int64_t ignored = 0);

// Labels of tokens as the packed [total] array.
Tensor pack_labels(const Tensor& labels, const PackedText& text);

}  // namespace ea
