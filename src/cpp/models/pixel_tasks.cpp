// Tasks of image networks: requested stages and maps, mean of the pixels.
#include "models/pixel_tasks.h"

#include "nn/image_layers.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Returns requested stages as [B, C, height, width], maps as [B, heads, n, n].
ModelOutput requested(const EncodedPixels& encoded) {
  ModelOutput out;
  out.hidden_states = shown(encoded.stages, channels_first);
  put_maps(out, encoded.maps, [](const Var& x, const PackingPtr& p) {
    return reshape(
        x, {p->sequences(), p->heads(), p->longest_query(), p->longest_key()});
  });
  return out;
}

// Model without a task: the last stage, and its mean over the pixels.
class PixelModel final : public Model {
 public:
  explicit PixelModel(std::unique_ptr<PixelBody> body)
      : body_(std::move(body)) {
    add_child("", *body_);
  }

  ModelOutput forward(const Inputs& given) override {
    const ImageInputs inputs = image_inputs(given);
    refuse_labels(inputs);
    const EncodedPixels encoded = body_->forward(inputs);
    ModelOutput out = requested(encoded);
    out.last_hidden_state = channels_first(encoded.last);
    const Var pooled = mean_of_pixels(encoded.last);
    out.pooler_output = reshape(pooled, {pooled.dim(0), pooled.dim(1), 1, 1});
    return out;
  }

 private:
  std::unique_ptr<PixelBody> body_;
};

class PixelClassifier final : public Model {
 public:
  PixelClassifier(const std::string& name, std::unique_ptr<PixelBody> body,
                  const ModelConfig& config)
      : body_(std::move(body)),
        classifier_(body_->width(), positive(config.options, "num_labels", 2),
                    config.dtype, AffineInit::uniform(body_->width())),
        dropout_(rate(config.options, "classifier_dropout", 0.0)) {
    add_child(name, *body_);
    add_child("classifier.1", classifier_);
    add_child("dropout", dropout_);
  }

  ModelOutput forward(const Inputs& given) override {
    const ImageInputs inputs = image_inputs(given);
    const EncodedPixels encoded = body_->forward(inputs);
    ModelOutput out = requested(encoded);
    out.logits = classifier_(dropout_(mean_of_pixels(encoded.last)));
    out.loss = image_loss(out.logits, inputs);
    return out;
  }

 private:
  std::unique_ptr<PixelBody> body_;
  Linear classifier_;
  Dropout dropout_;
};

}  // namespace

std::unique_ptr<Model> pixel_model(const std::string& name,
                                   std::unique_ptr<PixelBody> body,
                                   const ModelConfig& config) {
  const std::string head = config.options.text("head", "base");
  if (head == "base") return std::make_unique<PixelModel>(std::move(body));
  if (head == "image_classification") {
    return std::make_unique<PixelClassifier>(name, std::move(body), config);
  }
  fail<ConfigError>(name.c_str(),
                    "unknown head '{}'; expected base or image_classification",
                    head);
}

}  // namespace ea
