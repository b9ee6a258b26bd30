// The inputs of a text model, before and after packing.
#pragma once

#include <string>
#include <vector>

#include "autograd/var.h"
#include "models/inputs.h"
#include "models/packed_rows.h"

namespace ea {

// Inputs as the caller gives them: padded [B, T] arrays with an optional mask,
// or packed [total] arrays with offsets. Omitted ones are undefined. They may
// be on any device; they are checked and packed on the CPU.
struct TextInputs {
  std::string prefix;       // prefix of array names in messages: "decoder_"
  Tensor input_ids;         // int64
  Tensor attention_mask;    // int64 [B, T], 1: a token, 0: padding
  Tensor token_type_ids;    // int64, shape of input_ids
  Tensor position_ids;      // int64, shape of input_ids
  Tensor sequence_offsets;  // int64 [B + 1], packed form
  Tensor labels;
  Tensor logits_to_keep;  // int64 [n], positions in packed input_ids
  Tensor next_sentence_label;
  Tensor start_positions, end_positions;
  double label_smoothing = 0.0;
  Wanted wanted;

  // The caller's name of an array, for messages.
  std::string named(const char* array) const { return prefix + array; }
};

// The inputs that text models declare, and their values in a call.
const std::vector<InputSpec>& text_input_specs();
TextInputs text_inputs(const Inputs& inputs);

// The packed form: one row per token, no padding. All tensors are on the CPU:
// ops copy indices to the device of the weights.
struct PackedText : PackedRows {
  Tensor input_ids, token_type_ids, position_ids;  // int64 [total]
  Tensor first_rows;  // int64 [B]: each sequence's first token
};

// The default numbering of positions.
struct PositionRule {
  std::int64_t max_positions = 0;
  // -1: 0, 1, 2, ... by column (BERT). Otherwise RoBERTa's rule: padding_id +
  // 1, padding_id + 2, ... for ids other than padding_id, and padding_id for
  // it.
  std::int64_t padding_id = -1;
};

// Checks shapes, masks and lengths and packs. Throws ShapeError or InputError
// that names the argument, the index and the limit.
PackedText pack(const TextInputs& inputs, std::int64_t heads,
                const PositionRule& rule);

// Checks that packed token values are in 0 .. size - 1 or equal `ignored`.
// Throws InputError with the index in the caller's array and the setting
// `limit`.
void check_ids(const PackedText& text, const char* name, const Tensor& ids,
               std::int64_t size, const char* limit, std::int64_t ignored = 0);

// Returns the rows [n] that logits_to_keep names; undefined: all. Throws
// InputError or ShapeError unless they ascend within packed input.
Tensor rows_to_keep(const TextInputs& inputs);

// Returns the labels of tokens as the packed [total] array.
Tensor pack_labels(const Tensor& labels, const PackedText& text);

}  // namespace ea
