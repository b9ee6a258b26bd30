// Tasks with one affine map on BERT's body, the same for all its families.
#pragma once

#include <memory>
#include <string>

#include "models/bert_encoder.h"

namespace ea {

// Properties in which the families differ.
struct TextFamily {
  std::string name;         // the encoder's name in parameter names: "bert"
  std::int64_t padding_id;  // as for BertEncoder
};

// Returns the task `head` of a family, or null for any other head:
// sequence_classification, multiple_choice (pooled output),
// token_classification and question_answering (every token). To add a task, add
// a row to the table in linear_tasks.cpp.
std::unique_ptr<Model> make_linear_task(const std::string& head,
                                        const TextFamily& family,
                                        const ModelConfig& config);

// The names of these tasks, for messages: "a, b, c".
std::string linear_task_names();

}  // namespace ea
