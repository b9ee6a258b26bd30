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

LanguageModelHead::LanguageModelHead(const BertSizes& sizes, DType dtype,
                                     const std::string& dense,
                                     const std::string& norm,
                                     Activation activation)
    : dense_(sizes.hidden, sizes.hidden, dtype, sizes.init_std),
      norm_(sizes.hidden, sizes.eps, dtype),
      bias_(add_parameter("bias", {sizes.vocab}, dtype, {})),
      activation_(activation) {
  add_child(dense, dense_);
  add_child(norm, norm_);
}

Var LanguageModelHead::forward(const Var& rows, const Var& word_weight) {
  const Var h = norm_(dense_(rows, activation_));
  return linear(h, word_weight, bias_);
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

}  // namespace ea
