// Checks and packs the inputs of text models.
#include "models/text_inputs.h"

#include "runtime/check.h"

namespace ea {

namespace {

void check_same(const TextInputs& in, const char* name, const Tensor& t) {
  EA_CHECK(!t.defined() || t.shape() == in.input_ids.shape(), "forward",
           "{} has shape {}, {} {}: they must be equal", in.named(name),
           t.shape(), in.named("input_ids"), in.input_ids.shape());
}

Rows rows_of_padded(const TextInputs& in) {
  const std::int64_t batch = in.input_ids.dim(0);
  const std::int64_t length = in.input_ids.dim(1);
  Rows rows;
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t t = 0; t < length; ++t) {
      const std::int64_t place = b * length + t;
      if (in.attention_mask.defined()) {
        const std::int64_t keep = values(in.attention_mask)[place];
        EA_CHECK_AS(InputError, keep == 0 || keep == 1, "forward",
                    "{}[{}, {}] = {}: expected 1 for a token or 0 for padding",
                    in.named("attention_mask"), b, t, keep);
        if (keep == 0) continue;
      }
      rows.places.push_back(place);
      rows.columns.push_back(t);
    }
    rows.offsets.push_back(static_cast<std::int64_t>(rows.places.size()));
    EA_CHECK_AS(InputError, rows.offsets.end()[-1] > rows.offsets.end()[-2],
                "forward",
                "row {} has no token: its {} is all 0 (or the length is 0); "
                "leave the row out of the batch",
                b, in.named("attention_mask"));
  }
  return rows;
}

Tensor pick(const Tensor& from, const Rows& rows) {
  if (!from.defined()) {  // token types default to 0
    return zeros({static_cast<std::int64_t>(rows.places.size())}, DType::i64);
  }
  Tensor out =
      empty({static_cast<std::int64_t>(rows.places.size())}, DType::i64);
  auto* target = out.data<std::int64_t>();
  for (std::size_t i = 0; i < rows.places.size(); ++i) {
    target[i] = values(from)[rows.places[i]];
  }
  return out;
}

// RoBERTa counts the ids that are not padding, from the start of each row of
// the padded array: a masked token still counts, a padding id never does.
std::vector<std::int64_t> counted_positions(const TextInputs& in,
                                            const Rows& rows, bool padded,
                                            std::int64_t padding_id) {
  const std::int64_t n = in.input_ids.numel();
  std::vector<std::int64_t> all(static_cast<std::size_t>(n));
  const std::size_t sequences = rows.offsets.size() - 1;
  for (std::size_t b = 0; b < sequences; ++b) {
    const std::int64_t length = padded ? in.input_ids.dim(1) : 0;
    const std::int64_t begin =
        padded ? static_cast<std::int64_t>(b) * length : rows.offsets[b];
    const std::int64_t end = padded ? begin + length : rows.offsets[b + 1];
    std::int64_t count = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const bool token = values(in.input_ids)[i] != padding_id;
      all[static_cast<std::size_t>(i)] =
          token ? padding_id + ++count : padding_id;
    }
  }
  return all;
}

Tensor positions(const TextInputs& in, const Rows& rows, bool padded,
                 const PositionRule& rule) {
  if (in.position_ids.defined()) return pick(in.position_ids, rows);
  if (rule.padding_id < 0) return from_values(rows.columns);
  return pick(from_values(counted_positions(in, rows, padded, rule.padding_id)),
              rows);
}

void check_length(const Tensor& positions, const PositionRule& rule) {
  const std::int64_t offset = rule.padding_id < 0 ? 0 : rule.padding_id + 1;
  for (std::int64_t i = 0; i < positions.numel(); ++i) {
    EA_CHECK_AS(InputError, values(positions)[i] < rule.max_positions,
                "forward",
                "a sequence has more than {} tokens, the most this model takes "
                "(max_position_embeddings {}); pass truncation=True and "
                "max_length={} to the tokenizer",
                rule.max_positions - offset, rule.max_positions,
                rule.max_positions - offset);
  }
}

}  // namespace

const std::vector<InputSpec>& text_input_specs() {
  using enum InputKind;
  static const std::vector<InputSpec> specs{
      {"input_ids", integers, true,
       "token ids [B, T]; or packed [total] with sequence_offsets."},
      {"attention_mask", integers, true,
       "[B, T], 1 for tokens, 0 for padding; by default all 1. Masked tokens "
       "are not computed at all."},
      {"token_type_ids", integers, true,
       "segments, in the shape of input_ids; by default 0."},
      {"position_ids", integers, true,
       "positions, in the shape of input_ids; by default as the architecture "
       "counts them."},
      {"labels", labels, true,
       "[B] classes or values, or [B, num_labels] of 0 and 1 where several "
       "labels may hold (multi-label classification); for language models and "
       "token classifiers in the shape of input_ids, -100 where there is "
       "nothing to predict."},
      {"sequence_offsets", integers, false,
       "[B + 1], index of each packed sequence's first token, then the total."},
      {"logits_to_keep", integers, false,
       "[n], positions in packed input_ids, ascending; only their logits are "
       "computed, and labels are then [n]. For language models."},
      {"next_sentence_label", integers, false,
       "[B], 0 if the second text follows the first; for pre-training."},
      {"start_positions", integers, false,
       "[B], the position of each answer's first token in its sequence; for "
       "question answering."},
      {"end_positions", integers, false,
       "[B], the position of each answer's last token, like start_positions."},
  };
  return specs;
}

TextInputs text_inputs(const Inputs& given) {
  TextInputs in;
  in.input_ids = given.array("input_ids");
  EA_CHECK_AS(InputError, in.input_ids.defined(), "forward",
              "input_ids is None; expected token ids");
  in.attention_mask = given.array("attention_mask");
  in.token_type_ids = given.array("token_type_ids");
  in.position_ids = given.array("position_ids");
  in.sequence_offsets = given.array("sequence_offsets");
  in.labels = given.array("labels");
  in.logits_to_keep = given.array("logits_to_keep");
  in.next_sentence_label = given.array("next_sentence_label");
  in.start_positions = given.array("start_positions");
  in.end_positions = given.array("end_positions");
  in.label_smoothing = given.label_smoothing;
  in.wanted = given.wanted;
  return in;
}

PackedText pack(const TextInputs& given, std::int64_t heads,
                const PositionRule& rule) {
  TextInputs in = given;
  const auto to_host = [&in](const char* name, Tensor& t) {
    t = host_integers(in.named(name), t);
  };
  to_host("input_ids", in.input_ids);
  to_host("attention_mask", in.attention_mask);
  to_host("token_type_ids", in.token_type_ids);
  to_host("position_ids", in.position_ids);
  to_host("sequence_offsets", in.sequence_offsets);
  const bool padded = !in.sequence_offsets.defined();
  EA_CHECK(in.input_ids.rank() == (padded ? 2 : 1), "forward",
           "{} has shape {}, expected {}{}", in.named("input_ids"),
           in.input_ids.shape(),
           padded ? "(batch, length), or (total,) with " : "(total,) with ",
           in.named("sequence_offsets"));
  EA_CHECK(padded || !in.attention_mask.defined(), "forward",
           "{} with {}: packed input has no padding to mask; leave one of "
           "the two out",
           in.named("attention_mask"), in.named("sequence_offsets"));
  check_same(in, "attention_mask", in.attention_mask);
  check_same(in, "token_type_ids", in.token_type_ids);
  check_same(in, "position_ids", in.position_ids);
  const Rows rows =
      padded
          ? rows_of_padded(in)
          : rows_of_packed(in.sequence_offsets, in.input_ids.numel(),
                           in.named("input_ids"), in.named("sequence_offsets"));
  PackedText text;
  static_cast<PackedRows&>(text) =
      padded
          ? packed_rows(rows, heads, in.input_ids.dim(0), in.input_ids.dim(1))
          : packed_rows(rows, heads);
  text.input_ids = pick(in.input_ids, rows);
  text.token_type_ids = pick(in.token_type_ids, rows);
  text.position_ids = positions(in, rows, padded, rule);
  if (!in.position_ids.defined()) check_length(text.position_ids, rule);
  text.first_rows = from_values({rows.offsets.data(), rows.offsets.size() - 1});
  return text;
}

void check_ids(const PackedText& text, const char* name, const Tensor& ids,
               std::int64_t size, const char* limit, std::int64_t ignored) {
  for (std::int64_t i = 0; i < ids.numel(); ++i) {
    const std::int64_t id = values(ids)[i];
    if ((id >= 0 && id < size) || id == ignored) continue;
    const std::int64_t place = values(text.places)[i];
    const std::string where =
        text.padded ? format("{}, {}", place / text.length, place % text.length)
                    : format("{}", place);
    fail<InputError>("forward", "{}[{}] = {}: expected 0 to {} ({} is {})",
                     name, where, id, size - 1, limit, size);
  }
}

Tensor rows_to_keep(const TextInputs& in) {
  if (!in.logits_to_keep.defined()) return {};
  EA_CHECK_AS(InputError, in.sequence_offsets.defined(), "forward",
              "logits_to_keep is given with padded input_ids; expected packed "
              "ones: pass sequence_offsets, or leave it out");
  const Tensor rows = to_device(contiguous(in.logits_to_keep), kCpu);
  EA_CHECK(rows.rank() == 1 && rows.numel() > 0, "forward",
           "logits_to_keep has shape {}, expected (n,): a place in input_ids "
           "for each row of logits",
           rows.shape());
  const std::int64_t total = in.input_ids.numel();
  for (std::int64_t i = 0; i < rows.numel(); ++i) {
    const std::int64_t least = i == 0 ? 0 : values(rows)[i - 1] + 1;
    EA_CHECK_AS(InputError, values(rows)[i] >= least && values(rows)[i] < total,
                "forward",
                "logits_to_keep[{}] = {}: expected {} to {}, ascending places "
                "in the {} input_ids",
                i, values(rows)[i], least, total - 1, total);
  }
  return rows;
}

Tensor pack_labels(const Tensor& labels, const PackedText& text) {
  const std::int64_t expected =
      text.padded ? text.pad_index.numel() : text.input_ids.numel();
  EA_CHECK(labels.numel() == expected, "forward",
           "labels have shape {}, expected one for each of {} input_ids",
           labels.shape(), expected);
  const Tensor flat = reshape_view(host_integers("labels", labels), {expected});
  if (!text.padded) return flat;
  Tensor out = empty(text.input_ids.shape(), DType::i64);
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    out.data<std::int64_t>()[i] = values(flat)[values(text.places)[i]];
  }
  return out;
}

}  // namespace ea
