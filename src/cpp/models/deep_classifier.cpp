// RoBERTa's classifier, and BERT's with a hidden layer of its own width instead
// of the pooler ("the final fully-connected layer before softmax" of Wang et
// al., ICML 2021, A.2).
#include "models/deep_classifier.h"

#include "models/heads.h"

namespace ea {

namespace {

class DeepClassifier final : public Model {
 public:
  DeepClassifier(const TextFamily& family, const ModelConfig& config)
      : sizes_(config.options),
        encoder_(sizes_, config, false, family.padding_id),
        dense_(sizes_.hidden, width(), config.dtype, sizes_.init_std),
        out_proj_(width(), sizes_.num_labels, config.dtype, sizes_.init_std),
        dense_dropout_(sizes_.classifier_dropout),
        out_dropout_(sizes_.classifier_dropout) {
    add_child(family.name, encoder_);
    add_child("classifier.dense", dense_);
    add_child("classifier.out_proj", out_proj_);
    add_child("classifier.dense.dropout", dense_dropout_);
    add_child("classifier.out_proj.dropout", out_dropout_);
  }

  ModelOutput forward(const Inputs& given) override {
    const TextInputs inputs = text_inputs(given);
    const EncodedText encoded = encoder_.forward(inputs, Reads::first_tokens);
    ModelOutput out = common_output(encoded.stack, encoded.text);
    const Var h = activation(dense_(dense_dropout_(encoded.stack.last)),
                             Activation::tanh);
    out.logits = out_proj_(out_dropout_(h));
    if (inputs.labels.defined()) out.loss = sequence_loss(out.logits, inputs);
    return out;
  }

 private:
  std::int64_t width() const {
    return sizes_.classifier_hidden > 0 ? sizes_.classifier_hidden
                                        : sizes_.hidden;
  }

  BertSizes sizes_;
  BertEncoder encoder_;
  Linear dense_, out_proj_;
  Dropout dense_dropout_, out_dropout_;
};

}  // namespace

std::unique_ptr<Model> make_deep_classifier(const TextFamily& family,
                                            const ModelConfig& config) {
  return std::make_unique<DeepClassifier>(family, config);
}

}  // namespace ea
