// The table of tasks, and the model that one of its rows describes.
#include "models/linear_tasks.h"

#include <array>

#include "models/heads.h"
#include "ops/losses.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"

namespace ea {

namespace {

// y = map(dropout(x)) with x the pooled output or the rows of all tokens.
struct LinearTask {
  const char* head;
  const char* map;  // its parameter name
  bool pooled, dropout;
  std::int64_t (*width)(const BertSizes&);
  // Computes logits and loss from y; `inputs` as the caller gave them.
  void (*finish)(ModelOutput&, const Var& y, const EncodedText&,
                 const TextInputs& inputs);
  // Converts the inputs to the form that the encoder takes.
  TextInputs (*arranged)(const TextInputs&) = nullptr;
};

// ------------------------------------------------------------ multiple choice

// Reshapes [questions, choices, length] to [questions * choices, length].
Tensor as_rows(const Tensor& t, const char* name) {
  if (!t.defined() || t.rank() < 3) return t;
  EA_CHECK(t.rank() == 3, "forward",
           "{} has shape {}, expected (questions, choices, length)", name,
           t.shape());
  return reshape_view(contiguous(t), {t.dim(0) * t.dim(1), t.dim(2)});
}

TextInputs choices_as_rows(const TextInputs& given) {
  TextInputs in = given;
  in.input_ids = as_rows(given.input_ids, "input_ids");
  in.attention_mask = as_rows(given.attention_mask, "attention_mask");
  in.token_type_ids = as_rows(given.token_type_ids, "token_type_ids");
  in.position_ids = as_rows(given.position_ids, "position_ids");
  return in;
}

void finish_choices(ModelOutput& out, const Var& y, const EncodedText& /*text*/,
                    const TextInputs& inputs) {
  const Tensor& ids = inputs.input_ids;
  const bool several = ids.rank() == 3;
  const std::int64_t questions = several ? ids.dim(0) : 1;
  out.logits = reshape(y, {questions, several ? ids.dim(1) : y.dim(0)});
  if (!inputs.labels.defined()) return;
  EA_CHECK_AS(DTypeError, inputs.labels.dtype() == DType::i64, "forward",
              "labels of choices must be integers, got {}",
              inputs.labels.dtype());
  EA_CHECK(inputs.labels.numel() == questions, "forward",
           "labels have shape {}, expected one choice for each of {} questions "
           "(input_ids of several questions are (questions, choices, length))",
           inputs.labels.shape(), questions);
  out.loss = cross_entropy(out.logits,
                           reshape_view(contiguous(inputs.labels), {questions}),
                           inputs.label_smoothing);
}

// ---------------------------------------------------------------- other tasks

void finish_sequences(ModelOutput& out, const Var& y,
                      const EncodedText& /*text*/, const TextInputs& inputs) {
  out.logits = y;
  if (inputs.labels.defined()) out.loss = sequence_loss(y, inputs);
}

void finish_tokens(ModelOutput& out, const Var& y, const EncodedText& encoded,
                   const TextInputs& inputs) {
  add_token_classes(out, y, encoded, inputs, "num_labels");
}

std::int64_t labels(const BertSizes& sizes) { return sizes.num_labels; }
std::int64_t one(const BertSizes& /*sizes*/) { return 1; }
std::int64_t start_and_end(const BertSizes& /*sizes*/) { return 2; }

constexpr std::array kTasks{
    LinearTask{"sequence_classification", "classifier", true, true, labels,
               finish_sequences},
    LinearTask{"multiple_choice", "classifier", true, true, one, finish_choices,
               choices_as_rows},
    LinearTask{"token_classification", "classifier", false, true, labels,
               finish_tokens},
    LinearTask{"question_answering", "qa_outputs", false, false, start_and_end,
               add_spans},
};

class LinearTaskModel final : public Model {
 public:
  LinearTaskModel(const LinearTask& task, const TextFamily& family,
                  const ModelConfig& config)
      : task_(task),
        sizes_(config.options),
        encoder_(sizes_, config, task.pooled, family.padding_id),
        map_(sizes_.hidden, task.width(sizes_), config.dtype, sizes_.init_std),
        dropout_(task.dropout ? sizes_.classifier_dropout : 0.0) {
    add_child(family.name, encoder_);
    add_child(task.map, map_);
    add_child("dropout", dropout_);
  }

  ModelOutput forward(const Inputs& given) override {
    const TextInputs inputs = text_inputs(given);
    const EncodedText encoded = encoder_.forward(
        task_.arranged == nullptr ? inputs : task_.arranged(inputs),
        task_.pooled ? Reads::first_tokens : Reads::all_tokens);
    ModelOutput out = common_output(encoded.stack, encoded.text);
    const Var& read = task_.pooled ? encoded.pooled : encoded.stack.last;
    task_.finish(out, map_(dropout_(read)), encoded, inputs);
    return out;
  }

 private:
  LinearTask task_;
  BertSizes sizes_;
  BertEncoder encoder_;
  Linear map_;
  Dropout dropout_;
};

}  // namespace

std::unique_ptr<Model> make_linear_task(const std::string& head,
                                        const TextFamily& family,
                                        const ModelConfig& config) {
  for (const LinearTask& task : kTasks) {
    if (head == task.head) {
      return std::make_unique<LinearTaskModel>(task, family, config);
    }
  }
  return nullptr;
}

std::string linear_task_names() {
  std::string names;
  for (const LinearTask& task : kTasks) {
    names += (names.empty() ? "" : ", ") + std::string(task.head);
  }
  return names;
}

}  // namespace ea
