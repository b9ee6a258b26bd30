// Tasks with one affine map over BERT's body, alike in every family of it.
#pragma once

#include <memory>
#include <string>

#include "models/bert_encoder.h"

namespace ea {

// What differs between the families.
struct TextFamily {
  std::string name;         // of the encoder in parameters' names: "bert"
  std::int64_t padding_id;  // as for BertEncoder
};

// The task `head` of a family, or null for a head that has no such task:
// sequence_classification, multiple_choice (pooled output),
// token_classification and question_answering (every token). A new one is a row
// of the table in linear_tasks.cpp.
std::unique_ptr<Model> make_linear_task(const std::string& head,
                                        const TextFamily& family,
                                        const ModelConfig& config);

// The names of these tasks, for messages: "a, b, c".
std::string linear_task_names();

}  // namespace ea
