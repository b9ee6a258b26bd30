// BERT (Devlin et al., 2019) with its tasks; names are Hugging Face's.
#include "models/deep_classifier.h"
#include "models/heads.h"
#include "models/linear_tasks.h"
#include "runtime/check.h"

namespace ea {

namespace {

constexpr std::int64_t kByColumn = -1;

std::unique_ptr<Model> make_bert(const ModelConfig& config) {
  const std::string head = config.options.text("head", "base");
  if (head == "base") return std::make_unique<BertModel>(config, kByColumn);
  if (head == "sequence_classification" &&
      config.options.has("classifier_hidden_size")) {
    return make_deep_classifier({"bert", kByColumn}, config);
  }
  if (auto task = make_linear_task(head, {"bert", kByColumn}, config)) {
    return task;
  }
  if (head == "masked_lm" || head == "pretraining") {
    return make_language_model({.family = {"bert", kByColumn},
                                .head = "cls.predictions",
                                .dense = "transform.dense",
                                .norm = "transform.LayerNorm",
                                .next_sentence = head == "pretraining"},
                               config);
  }
  fail<ConfigError>("bert",
                    "unknown head '{}'; expected base, masked_lm, pretraining, "
                    "{}",
                    head, linear_task_names());
}

const RegisterModel kBert("bert", {text_input_specs(), make_bert});

}  // namespace

}  // namespace ea
