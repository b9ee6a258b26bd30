// Residual networks with their tasks: features, and classes of images.
#include <cmath>

#include "models/resnet.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Requested stages as [B, C, height, width], maps as [B, heads, n, n].
ModelOutput requested(const EncodedPixels& encoded) {
  ModelOutput out;
  out.hidden_states = shown(encoded.stages, channels_first);
  const auto dense = [](const std::map<int, Carry>& maps) {
    std::map<int, Var> found;
    for (const auto& [i, one] : maps) {
      const PackingPtr& p = one.packing;
      const Shape shape{p->sequences(), p->heads(), p->longest_query(),
                        p->longest_key()};
      found.merge(shown({{i, one.maps}},
                        [shape](const Var& x) { return reshape(x, shape); }));
    }
    return found;
  };
  out.attentions = dense(encoded.maps.attentions);
  out.attention_logits = dense(encoded.maps.attention_logits);
  out.attention_scores = dense(encoded.maps.attention_scores);
  return out;
}

// Without a task: the last stage, and its mean over the pixels.
class ResNetModel final : public Model {
 public:
  ResNetModel(const ModelConfig& config, bool augmented)
      : body_(ResNetSizes(config.options, augmented), config) {
    add_child("", body_);
  }

  ModelOutput forward(const Inputs& given) override {
    const ImageInputs inputs = image_inputs(given);
    refuse_labels(inputs);
    const EncodedPixels encoded = body_.forward(inputs);
    ModelOutput out = requested(encoded);
    out.last_hidden_state = channels_first(encoded.last);
    const Var pooled = mean_of_pixels(encoded.last);
    out.pooler_output = reshape(pooled, {pooled.dim(0), pooled.dim(1), 1, 1});
    return out;
  }

 private:
  ResNetBody body_;
};

class ResNetForClassification final : public Model {
 public:
  ResNetForClassification(const ModelConfig& config, bool augmented)
      : sizes_(config.options, augmented),
        body_(sizes_, config),
        classifier_(sizes_.hidden.back(), sizes_.num_labels, config.dtype,
                    AffineInit::uniform(sizes_.hidden.back())),
        dropout_(rate(config.options, "classifier_dropout", 0.0)) {
    add_child("resnet", body_);
    add_child("classifier.1", classifier_);
    add_child("dropout", dropout_);
  }

  ModelOutput forward(const Inputs& given) override {
    const ImageInputs inputs = image_inputs(given);
    const EncodedPixels encoded = body_.forward(inputs);
    ModelOutput out = requested(encoded);
    out.logits = classifier_(dropout_(mean_of_pixels(encoded.last)));
    out.loss = image_loss(out.logits, inputs);
    return out;
  }

 private:
  ResNetSizes sizes_;
  ResNetBody body_;
  Linear classifier_;
  Dropout dropout_;
};

std::unique_ptr<Model> make_resnet(const ModelConfig& config, bool augmented) {
  const std::string head = config.options.text("head", "base");
  if (head == "base") return std::make_unique<ResNetModel>(config, augmented);
  if (head == "image_classification") {
    return std::make_unique<ResNetForClassification>(config, augmented);
  }
  fail<ConfigError>("resnet",
                    "unknown head '{}'; expected base or image_classification",
                    head);
}

std::unique_ptr<Model> make_plain(const ModelConfig& config) {
  return make_resnet(config, false);
}

std::unique_ptr<Model> make_augmented(const ModelConfig& config) {
  return make_resnet(config, true);
}

const RegisterModel kResNet("resnet", {image_input_specs(), make_plain});
const RegisterModel kAAResNet("aa_resnet",
                              {image_input_specs(), make_augmented});

}  // namespace

}  // namespace ea
