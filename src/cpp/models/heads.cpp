// Losses and heads shared by the architectures.
#include "models/heads.h"

#include "ops/arithmetic.h"
#include "ops/gather.h"
#include "ops/losses.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"

namespace ea {

Var row_loss(const Var& logits, const Tensor& labels, double label_smoothing,
             const char* what) {
  const std::int64_t rows = logits.dim(0);
  if (labels.rank() == 2 && logits.dim(1) > 1 &&
      labels.shape() == logits.shape()) {
    EA_CHECK_AS(ConfigError, label_smoothing == 0.0, "forward",
                "label smoothing is for one class of several; each label of "
                "several is decided by itself");
    return binary_cross_entropy(logits, labels);
  }
  EA_CHECK(labels.numel() == rows, "forward",
           "labels have shape {}, expected one for each of {} {}",
           labels.shape(), rows, what);
  if (logits.dim(1) == 1) {
    EA_CHECK_AS(ConfigError, label_smoothing == 0.0, "forward",
                "label smoothing is for classes; num_labels = 1 is regression");
    const Var target(
        to_device(cast(contiguous(labels), logits.dtype()), logits.device()));
    return mse_loss(reshape(logits, {rows}), reshape(target, {rows}));
  }
  EA_CHECK_AS(DTypeError, labels.dtype() == DType::i64, "forward",
              "labels of {} classes must be integers, got {}; set num_labels=1 "
              "for regression",
              logits.dim(1), labels.dtype());
  return cross_entropy(logits, labels, label_smoothing);
}

Var sequence_loss(const Var& logits, const TextInputs& inputs) {
  return row_loss(logits, inputs.labels, inputs.label_smoothing, "sequences");
}

void add_token_classes(ModelOutput& out, const Var& logits,
                       const EncodedText& encoded, const TextInputs& inputs,
                       const char* limit) {
  const bool some = inputs.logits_to_keep.defined();
  out.logits = some ? logits : pad_rows(logits, encoded.text);
  if (!inputs.labels.defined()) return;
  if (some) {
    EA_CHECK(inputs.labels.numel() == logits.dim(0), "forward",
             "labels have shape {}, expected ({},): one for each of "
             "logits_to_keep",
             inputs.labels.shape(), logits.dim(0));
    out.loss = cross_entropy(logits, inputs.labels, inputs.label_smoothing);
    return;
  }
  const Tensor labels = pack_labels(inputs.labels, encoded.text);
  check_ids(encoded.text, "labels", labels, logits.dim(1), limit, kIgnoreIndex);
  out.loss = cross_entropy(logits, labels, inputs.label_smoothing);
}

namespace {

constexpr double kNowhere = -1e30;  // finite, so that 0 * it is 0

// Returns [B, T]: the packed row at each position of a sequence, or -1.
Tensor rows_of_places(const PackedRows& text) {
  if (text.padded) return text.pad_index;
  const std::vector<std::int64_t>& offsets = text.packing->q_offsets();
  const std::int64_t sequences = text.packing->sequences();
  Tensor index = full({sequences, text.length}, DType::i64, -1);
  auto* to = index.data<std::int64_t>();
  for (std::int64_t b = 0; b < sequences; ++b) {
    const auto begin = offsets[static_cast<std::size_t>(b)];
    const auto end = offsets[static_cast<std::size_t>(b + 1)];
    for (std::int64_t row = begin; row < end; ++row) {
      to[b * text.length + row - begin] = row;
    }
  }
  return index;
}

// Returns the column [total, 1] as [B, T], kNowhere where `index` has no row.
Var over_places(const Var& column, const Tensor& index) {
  Tensor shift = zeros(index.shape(), DType::f64);
  for (std::int64_t i = 0; i < index.numel(); ++i) {
    if (index.data<std::int64_t>()[i] < 0) shift.data<double>()[i] = kNowhere;
  }
  const Var placed = reshape(gather_rows(column, index), index.shape());
  return add(placed,
             Var(to_device(cast(shift, column.dtype()), column.device())));
}

// Returns the positions [B] as classes 0 .. T - 1; kIgnoreIndex: no token
// there.
Tensor places_as_classes(const char* name, const Tensor& given,
                         const Tensor& index) {
  const std::int64_t sequences = index.dim(0), length = index.dim(1);
  EA_CHECK(given.numel() == sequences, "forward",
           "{} has shape {}, expected ({},): a position for each sequence",
           name, given.shape(), sequences);
  const Tensor positions = to_device(contiguous(given), kCpu);
  Tensor classes = empty({sequences}, DType::i64);
  for (std::int64_t b = 0; b < sequences; ++b) {
    const std::int64_t place = positions.data<std::int64_t>()[b];
    EA_CHECK_AS(InputError, place >= 0, "forward",
                "{}[{}] = {}: expected a position, 0 or more; one after the "
                "last token leaves the sequence out of the loss",
                name, b, place);
    const bool exists =
        place < length && index.data<std::int64_t>()[b * length + place] >= 0;
    classes.data<std::int64_t>()[b] = exists ? place : kIgnoreIndex;
  }
  return classes;
}

}  // namespace

void add_spans(ModelOutput& out, const Var& logits, const EncodedText& encoded,
               const TextInputs& inputs) {
  const Tensor &first = inputs.start_positions, &last = inputs.end_positions;
  EA_CHECK_AS(InputError, first.defined() == last.defined(), "forward",
              "{} is given without {}; give both or none",
              first.defined() ? "start_positions" : "end_positions",
              first.defined() ? "end_positions" : "start_positions");
  const Var starts = slice(logits, 1, 0, 1), ends = slice(logits, 1, 1, 2);
  const bool padded = encoded.text.padded;
  const Shape flat{logits.dim(0)};
  if (!padded) {
    out.start_logits = reshape(starts, flat);
    out.end_logits = reshape(ends, flat);
  }
  if (!padded && !first.defined()) return;
  const Tensor index = rows_of_places(encoded.text);
  const Var start = over_places(starts, index), end = over_places(ends, index);
  if (padded) {
    out.start_logits = start;
    out.end_logits = end;
  }
  if (!first.defined()) return;
  EA_CHECK_AS(ConfigError, inputs.label_smoothing == 0.0, "forward",
              "label smoothing is for classes; the start and the end of an "
              "answer are places: leave label_smoothing out");
  const Var both = add(
      cross_entropy(start, places_as_classes("start_positions", first, index)),
      cross_entropy(end, places_as_classes("end_positions", last, index)));
  out.loss = scale(both, 0.5);
}

namespace {

void check_next_sentence(const Tensor& labels, std::int64_t rows) {
  EA_CHECK(labels.rank() == 1 && labels.dim(0) == rows, "forward",
           "next_sentence_label has shape {}, expected ({},): one for each row",
           labels.shape(), rows);
  const Tensor values = to_device(contiguous(labels), kCpu);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t value = values.data<std::int64_t>()[i];
    EA_CHECK_AS(InputError, value == 0 || value == 1 || value == kIgnoreIndex,
                "forward",
                "next_sentence_label[{}] = {}: expected 0 (the second text "
                "follows) or 1 (it does not), or -100 to leave the row out",
                i, value);
  }
}

class LanguageModelHead : public Module {
 public:
  LanguageModelHead(const BertSizes& sizes, const LanguageModelDesign& design,
                    DType dtype)
      : dense_(sizes.hidden, sizes.hidden, dtype, sizes.init_std),
        norm_(sizes.hidden, sizes.eps, dtype),
        bias_(add_parameter("bias", {sizes.vocab}, dtype, {})),
        activation_(design.activation.value_or(sizes.activation)) {
    add_child(design.dense, dense_);
    add_child(design.norm, norm_);
  }
  Var forward(const Var& rows, const Var& word_weight) {
    const Var h = norm_(dense_(rows, activation_));
    return linear(h, word_weight, bias_);
  }

 private:
  Linear dense_;
  LayerNorm norm_;
  Var bias_;
  Activation activation_;
};

class LanguageModel final : public Model {
 public:
  LanguageModel(const LanguageModelDesign& design, const ModelConfig& config)
      : sizes_(config.options),
        encoder_(sizes_, config, design.next_sentence,
                 design.family.padding_id),
        head_(sizes_, design, config.dtype) {
    add_child(design.family.name, encoder_);
    add_child(design.head, head_);
    if (design.next_sentence) {
      relationship_ = std::make_unique<Linear>(sizes_.hidden, 2, config.dtype,
                                               sizes_.init_std);
      add_child("cls.seq_relationship", *relationship_);
    }
  }

  ModelOutput forward(const Inputs& given) override {
    const TextInputs inputs = text_inputs(given);
    const EncodedText encoded = encoder_.forward(inputs, Reads::kept_tokens);
    ModelOutput out = common_output(encoded.stack, encoded.text);
    add_token_classes(out,
                      head_.forward(encoded.stack.last, encoder_.word_weight()),
                      encoded, inputs, "vocab_size");
    if (!relationship_) return out;
    out.seq_relationship_logits = (*relationship_)(encoded.pooled);
    if (inputs.next_sentence_label.defined()) {
      check_next_sentence(inputs.next_sentence_label,
                          out.seq_relationship_logits.dim(0));
      const Var next = cross_entropy(out.seq_relationship_logits,
                                     inputs.next_sentence_label);
      out.loss = out.loss.defined() ? add(out.loss, next) : next;
    }
    return out;
  }

 private:
  BertSizes sizes_;
  BertEncoder encoder_;
  LanguageModelHead head_;
  std::unique_ptr<Linear> relationship_;
};

}  // namespace

std::unique_ptr<Model> make_language_model(const LanguageModelDesign& design,
                                           const ModelConfig& config) {
  return std::make_unique<LanguageModel>(design, config);
}

}  // namespace ea
