// EA-DC-Transformer ("Convolution-enhanced Evolving Attention Networks", 3.3)
// with its tasks: classification, regression, prediction of masked values.
#include <cmath>

#include "models/series.h"
#include "nn/blocks/pooled_head.h"
#include "ops/arithmetic.h"
#include "ops/gather.h"
#include "ops/losses.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"

namespace ea {

namespace {

void refuse(const char* name, const Tensor& given, const char* reason) {
  EA_CHECK_AS(InputError, !given.defined(), "forward",
              "{} is given, expected none: {}; leave it out", name, reason);
}

void refuse_smoothing(const SeriesInputs& inputs, const char* task) {
  EA_CHECK_AS(
      ConfigError, inputs.label_smoothing == 0.0, "forward",
      "label_smoothing {} is for classes, which {} has not; leave it out",
      inputs.label_smoothing, task);
}

class SeriesEncoderModel final : public Model {
 public:
  explicit SeriesEncoderModel(const ModelConfig& config)
      : encoder_(SeriesSizes(config.options), config) {
    add_child("", encoder_);
  }

  ModelOutput forward(const Inputs& given) override {
    const SeriesInputs inputs = series_inputs(given);
    refuse("labels", inputs.labels, "a model without a task has no loss");
    refuse_smoothing(inputs, "a model without a task");
    refuse("masked", inputs.masked, "only models for pre-training mask values");
    const EncodedSeries encoded = encoder_.forward(inputs);
    ModelOutput out = common_output(encoded.stack, encoded.series);
    out.last_hidden_state = pad_rows(encoded.stack.last, encoded.series);
    return out;
  }

 private:
  SeriesEncoder encoder_;
};

PooledHeadConfig head_config(const SeriesSizes& s, std::int64_t outputs,
                             DType dtype) {
  return {s.hidden,
          s.max_length,
          outputs,
          s.mean_pooling,
          s.classifier_dropout,
          dtype,
          s.classifier_hidden,
          s.activation};
}

Var class_loss(const Var& logits, const Tensor& labels,
               double label_smoothing) {
  EA_CHECK_AS(DTypeError, labels.dtype() == DType::i64, "forward",
              "labels are {}, expected the integers 0 to {} of {} classes; for "
              "values use EADCTransformerForRegression",
              labels.dtype(), logits.dim(1) - 1, logits.dim(1));
  EA_CHECK(labels.shape() == Shape({logits.dim(0)}), "forward",
           "labels have shape {}, expected ({},): one for each series",
           labels.shape(), logits.dim(0));
  return cross_entropy(logits, labels, label_smoothing);
}

Var target_loss(const Var& predictions, const Tensor& labels) {
  const Shape& shape = predictions.shape();
  EA_CHECK(labels.shape() == shape ||
               (shape[1] == 1 && labels.shape() == Shape({shape[0]})),
           "forward",
           "labels have shape {}, expected {}: num_targets values "
           "for each series",
           labels.shape(), shape);
  const Tensor given = cast(to_device(contiguous(labels), kCpu), DType::f64);
  for (std::int64_t i = 0; i < given.numel(); ++i) {
    EA_CHECK_AS(InputError, std::isfinite(given.data<double>()[i]), "forward",
                "labels[{}] is {}: expected finite values; leave series "
                "without one out",
                i / shape[1], given.data<double>()[i]);
  }
  const Var target(to_device(cast(contiguous(labels), predictions.dtype()),
                             predictions.device()));
  return mse_loss(predictions, reshape(target, shape));
}

class SeriesForLabels final : public Model {
 public:
  SeriesForLabels(const ModelConfig& config, bool regression)
      : sizes_(config.options),
        regression_(regression),
        encoder_(sizes_, config),
        head_(head_config(sizes_,
                          regression ? sizes_.num_targets : sizes_.num_labels,
                          config.dtype)) {
    EA_CHECK_AS(ConfigError, regression || sizes_.num_labels >= 2, "config",
                "num_labels = {}: classification expected 2 or more; for "
                "values use the model for regression",
                sizes_.num_labels);
    EA_CHECK_AS(ConfigError, !regression || sizes_.num_targets >= 1, "config",
                "num_targets = {}, expected 1 or more", sizes_.num_targets);
    add_child("transformer", encoder_);
    add_child(regression ? "regressor" : "classifier", head_);
  }

  ModelOutput forward(const Inputs& given) override {
    const SeriesInputs inputs = series_inputs(given);
    refuse("masked", inputs.masked, "only models for pre-training mask values");
    if (regression_) refuse_smoothing(inputs, "regression");
    const EncodedSeries encoded = encoder_.forward(inputs);
    ModelOutput out = common_output(encoded.stack, encoded.series);
    out.logits = head_.forward(encoded.stack.last, *encoded.series.packing);
    if (inputs.labels.defined()) {
      out.loss = regression_ ? target_loss(out.logits, inputs.labels)
                             : class_loss(out.logits, inputs.labels,
                                          inputs.label_smoothing);
    }
    return out;
  }

 private:
  SeriesSizes sizes_;
  bool regression_;
  SeriesEncoder encoder_;
  PooledHead head_;
};

// Eq. 7 and 8: X^ = W Z + b from the series with masked cells; the loss is the
// mean squared error over the masked cells only.
class SeriesForPretraining final : public Model {
 public:
  explicit SeriesForPretraining(const ModelConfig& config)
      : sizes_(config.options),
        encoder_(sizes_, config),
        reconstruction_(sizes_.hidden, sizes_.channels, config.dtype,
                        AffineInit::uniform(sizes_.hidden)) {
    add_child("transformer", encoder_);
    add_child("reconstruction", reconstruction_);
  }

  ModelOutput forward(const Inputs& given) override {
    const SeriesInputs inputs = series_inputs(given);
    refuse("labels", inputs.labels, "pre-training predicts masked values");
    refuse_smoothing(inputs, "pre-training");
    const EncodedSeries encoded = encoder_.forward(inputs);
    ModelOutput out = common_output(encoded.stack, encoded.series);
    const Var values = reconstruction_(encoded.stack.last);
    out.logits = pad_rows(values, encoded.series);
    if (encoded.series.masked_cells.defined()) {
      out.loss = mse_loss(gather_rows(reshape(values, {values.numel(), 1}),
                                      encoded.series.masked_cells),
                          encoded.series.targets);
    }
    return out;
  }

 private:
  SeriesSizes sizes_;
  SeriesEncoder encoder_;
  Linear reconstruction_;
};

std::unique_ptr<Model> make_series(const ModelConfig& config) {
  const std::string head = config.options.text("head", "base");
  if (head == "base") return std::make_unique<SeriesEncoderModel>(config);
  if (head == "classification" || head == "regression") {
    return std::make_unique<SeriesForLabels>(config, head == "regression");
  }
  if (head == "pretraining") {
    return std::make_unique<SeriesForPretraining>(config);
  }
  fail<ConfigError>("ea_dc_transformer",
                    "unknown head '{}'; expected base, classification, "
                    "regression or pretraining",
                    head);
}

const RegisterModel kSeries("ea_dc_transformer",
                            {series_input_specs(), make_series});

}  // namespace

}  // namespace ea
