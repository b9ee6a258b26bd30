// RoBERTa (Liu et al., 2019): BERT's body, positions from padding_id + 1, no
// next-sentence task, and its own heads.
#include "models/deep_classifier.h"
#include "models/heads.h"
#include "models/linear_tasks.h"
#include "runtime/check.h"

namespace ea {

namespace {

class RobertaForMaskedLM final : public Model {
 public:
  explicit RobertaForMaskedLM(const ModelConfig& config)
      : sizes_(config.options),
        encoder_(sizes_, config, false, sizes_.pad_token_id),
        lm_head_(sizes_, config.dtype, "dense", "layer_norm",
                 Activation::gelu) {
    add_child("roberta", encoder_);
    add_child("lm_head", lm_head_);
  }

  ModelOutput forward(const Inputs& given) override {
    const TextInputs inputs = text_inputs(given);
    const EncodedText encoded = encoder_.forward(inputs, Reads::kept_tokens);
    ModelOutput out = common_output(encoded.stack, encoded.text);
    add_token_classes(
        out, lm_head_.forward(encoded.stack.last, encoder_.word_weight()),
        encoded, inputs, "vocab_size");
    return out;
  }

 private:
  BertSizes sizes_;
  BertEncoder encoder_;
  LanguageModelHead lm_head_;
};

std::unique_ptr<Model> make_roberta(const ModelConfig& config) {
  const std::string head = config.options.text("head", "base");
  const std::int64_t padding = BertSizes(config.options).pad_token_id;
  if (head == "base") return std::make_unique<BertModel>(config, padding);
  if (head == "sequence_classification") {  // two layers, unlike BERT's
    return make_deep_classifier({"roberta", padding}, config);
  }
  if (auto task = make_linear_task(head, {"roberta", padding}, config)) {
    return task;
  }
  if (head == "masked_lm") return std::make_unique<RobertaForMaskedLM>(config);
  fail<ConfigError>("roberta",
                    "unknown head '{}'; expected base, masked_lm, {} (RoBERTa "
                    "has no next-sentence pre-training)",
                    head, linear_task_names());
}

const RegisterModel kRoberta("roberta", {text_input_specs(), make_roberta});

}  // namespace

}  // namespace ea
