// BERT (Devlin et al., 2019) with its tasks; names are Hugging Face's.
#include "models/deep_classifier.h"
#include "models/heads.h"
#include "models/linear_tasks.h"
#include "ops/arithmetic.h"
#include "ops/losses.h"
#include "runtime/check.h"

namespace ea {

namespace {

constexpr std::int64_t kByColumn = -1;

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

// Masked LM, or with `next_sentence` both pre-training tasks.
class BertForLanguageModel final : public Model {
 public:
  BertForLanguageModel(const ModelConfig& config, bool next_sentence)
      : sizes_(config.options),
        encoder_(sizes_, config, next_sentence, kByColumn),
        predictions_(sizes_, config.dtype, "transform.dense",
                     "transform.LayerNorm", sizes_.activation) {
    add_child("bert", encoder_);
    add_child("cls.predictions", predictions_);
    if (next_sentence) {
      relationship_ = std::make_unique<Linear>(sizes_.hidden, 2, config.dtype,
                                               sizes_.init_std);
      add_child("cls.seq_relationship", *relationship_);
    }
  }

  ModelOutput forward(const Inputs& given) override {
    const TextInputs inputs = text_inputs(given);
    const EncodedText encoded = encoder_.forward(inputs, Reads::kept_tokens);
    ModelOutput out = common_output(encoded.stack, encoded.text);
    add_token_classes(
        out, predictions_.forward(encoded.stack.last, encoder_.word_weight()),
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
  LanguageModelHead predictions_;
  std::unique_ptr<Linear> relationship_;
};

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
    return std::make_unique<BertForLanguageModel>(config,
                                                  head == "pretraining");
  }
  fail<ConfigError>("bert",
                    "unknown head '{}'; expected base, masked_lm, pretraining, "
                    "{}",
                    head, linear_task_names());
}

const RegisterModel kBert("bert", {text_input_specs(), make_bert});

}  // namespace

}  // namespace ea
