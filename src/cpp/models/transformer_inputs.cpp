// Declares the inputs and derives the decoder's from the labels.
#include "models/transformer_inputs.h"

#include <algorithm>

#include "ops/losses.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Writes labels[begin, end) to `ids`, shifted right by one after `start`.
void shift_right(const Tensor& labels, const Tensor& ids, std::int64_t begin,
                 std::int64_t end, std::int64_t start, std::int64_t padding) {
  auto* out = ids.data<std::int64_t>();
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t id = i == begin ? start : values(labels)[i - 1];
    out[i] = id == kIgnoreIndex ? padding : id;
  }
}

// Returns 1 up to the last label of each row and for the first token of every
// row.
Tensor mask_of(const Tensor& labels) {
  const std::int64_t length = labels.dim(1);
  const Tensor mask = zeros(labels.shape(), DType::i64);
  for (std::int64_t b = 0; b < labels.dim(0); ++b) {
    const std::int64_t* row = values(labels) + b * length;
    std::int64_t last = 0;
    for (std::int64_t t = 0; t < length; ++t) {
      if (row[t] != kIgnoreIndex) last = t;
    }
    std::fill_n(mask.data<std::int64_t>() + b * length,
                std::min(last + 1, length), 1);
  }
  return mask;
}

void derive_ids(TextInputs& in, std::int64_t start, std::int64_t padding) {
  EA_CHECK_AS(InputError, in.labels.defined(), "forward",
              "decoder_input_ids and labels are None; expected the target's "
              "token ids, or labels, from which they follow");
  const Tensor labels = host_integers("labels", in.labels);
  const bool padded = !in.sequence_offsets.defined();
  EA_CHECK(labels.rank() == (padded ? 2 : 1), "forward",
           "labels have shape {}, expected {}", labels.shape(),
           padded ? "(batch, length), or (total,) with decoder_sequence_offsets"
                  : "(total,) with decoder_sequence_offsets");
  in.input_ids = empty(labels.shape(), DType::i64);
  if (padded) {
    const std::int64_t length = labels.dim(1);
    for (std::int64_t b = 0; b < labels.dim(0); ++b) {
      shift_right(labels, in.input_ids, b * length, (b + 1) * length, start,
                  padding);
    }
    if (!in.attention_mask.defined()) in.attention_mask = mask_of(labels);
    return;
  }
  const Rows rows =
      rows_of_packed(to_device(contiguous(in.sequence_offsets), kCpu),
                     labels.numel(), "labels", in.named("sequence_offsets"));
  for (std::size_t b = 1; b < rows.offsets.size(); ++b) {
    shift_right(labels, in.input_ids, rows.offsets[b - 1], rows.offsets[b],
                start, padding);
  }
}

}  // namespace

const std::vector<InputSpec>& transformer_input_specs() {
  using enum InputKind;
  static const std::vector<InputSpec> specs{
      {"input_ids", integers, true,
       "token ids of the source [B, S]; or packed [total] with "
       "sequence_offsets."},
      {"attention_mask", integers, true,
       "[B, S], 1 for tokens, 0 for padding; by default all 1. Masked tokens "
       "are not computed at all."},
      {"decoder_input_ids", integers, true,
       "token ids of the target [B, T], decoder_start_token_id first; or "
       "packed. By default the labels, shifted one to the right."},
      {"decoder_attention_mask", integers, true,
       "[B, T], like attention_mask. By default all 1; where decoder_input_ids "
       "come from the labels, 0 after the last label of each row."},
      {"labels", labels, true,
       "target token ids in the shape of decoder_input_ids, each the token "
       "that follows; -100 where there is nothing to predict."},
      {"sequence_offsets", integers, false,
       "[B + 1], index of each packed source's first token, then the total."},
      {"decoder_sequence_offsets", integers, false,
       "[B + 1], like sequence_offsets, for packed targets."},
  };
  return specs;
}

TextInputs source_inputs(const Inputs& given) {
  TextInputs in;
  in.input_ids = given.array("input_ids");
  EA_CHECK_AS(InputError, in.input_ids.defined(), "forward",
              "input_ids is None; expected token ids");
  in.attention_mask = given.array("attention_mask");
  in.sequence_offsets = given.array("sequence_offsets");
  in.wanted = given.wanted;
  return in;
}

TextInputs target_inputs(const Inputs& given, std::int64_t start,
                         std::int64_t padding) {
  TextInputs in;
  in.prefix = "decoder_";
  in.input_ids = given.array("decoder_input_ids");
  in.attention_mask = given.array("decoder_attention_mask");
  in.sequence_offsets = given.array("decoder_sequence_offsets");
  in.labels = given.array("labels");
  in.label_smoothing = given.label_smoothing;
  in.wanted = given.decoder_wanted;
  if (!in.input_ids.defined()) derive_ids(in, start, padding);
  return in;
}

}  // namespace ea
