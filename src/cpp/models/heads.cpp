// Losses and heads shared by the architectures.
#include "models/heads.h"

#include "ops/arithmetic.h"
#include "ops/losses.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"

namespace ea {

Var sequence_loss(const Var& logits, const TextInputs& inputs) {
  const std::int64_t rows = logits.dim(0);
  const Tensor& labels = inputs.labels;
  if (labels.rank() == 2 && logits.dim(1) > 1 &&
      labels.shape() == logits.shape()) {
    EA_CHECK_AS(ConfigError, inputs.label_smoothing == 0.0, "forward",
                "label smoothing is for one class of several; each label of "
                "several is decided by itself");
    return binary_cross_entropy(logits, labels);
  }
  EA_CHECK(labels.numel() == rows, "forward",
           "labels have shape {}, expected one for each of {} sequences",
           labels.shape(), rows);
  if (logits.dim(1) == 1) {
    EA_CHECK_AS(ConfigError, inputs.label_smoothing == 0.0, "forward",
                "label smoothing is for classes; num_labels = 1 is regression");
    const Var target(
        to_device(cast(contiguous(labels), logits.dtype()), logits.device()));
    return mse_loss(reshape(logits, {rows}), reshape(target, {rows}));
  }
  EA_CHECK_AS(DTypeError, labels.dtype() == DType::i64, "forward",
              "labels of {} classes must be integers, got {}; set num_labels=1 "
              "for regression",
              logits.dim(1), labels.dtype());
  return cross_entropy(logits, labels, inputs.label_smoothing);
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

void add_language_model(ModelOutput& out, const Var& logits,
                        const EncodedText& encoded, const TextInputs& inputs) {
  out.logits = pad_rows(logits, encoded.text);
  if (inputs.labels.defined()) {
    const Tensor labels = pack_labels(inputs.labels, encoded.text);
    check_ids(encoded.text, "labels", labels, logits.dim(1), "vocab_size",
              kIgnoreIndex);
    out.loss = cross_entropy(logits, labels, inputs.label_smoothing);
  }
}

}  // namespace ea
