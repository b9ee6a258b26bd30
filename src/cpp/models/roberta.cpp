// RoBERTa (Liu et al., 2019): BERT's body, positions from padding_id + 1, no
// next-sentence task, and its own heads.
#include "models/deep_classifier.h"
#include "models/heads.h"
#include "models/linear_tasks.h"
#include "runtime/check.h"

namespace ea {

namespace {

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
  if (head == "masked_lm") {
    return make_language_model({.family = {"roberta", padding},
                                .head = "lm_head",
                                .dense = "dense",
                                .norm = "layer_norm",
                                .activation = Activation::gelu},
                               config);
  }
  fail<ConfigError>("roberta",
                    "unknown head '{}'; expected base, masked_lm, {} (RoBERTa "
                    "has no next-sentence pre-training)",
                    head, linear_task_names());
}

const RegisterModel kRoberta("roberta", {text_input_specs(), make_roberta});

}  // namespace

}  // namespace ea
