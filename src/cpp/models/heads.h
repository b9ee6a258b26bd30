// Losses and heads that tasks add to an encoder.
#pragma once

#include <memory>
#include <optional>

#include "models/linear_tasks.h"

namespace ea {

// Returns the loss of logits [rows, classes]: mean squared error for one label,
// cross entropy for classes, binary cross entropy for labels in the shape of
// the logits. Throws DTypeError or InputError for labels that do not fit;
// `rows` is their name in messages.
Var row_loss(const Var& logits, const Tensor& labels, double label_smoothing,
             const char* rows);
// row_loss() for a task of sequences.
Var sequence_loss(const Var& logits, const TextInputs& inputs);

// Differences between the language models of the families.
struct LanguageModelDesign {
  TextFamily family;
  const char* head;  // its parameter name, and those of its inner modules
  const char* dense;
  const char* norm;
  std::optional<Activation> activation = {};  // default: the encoder's
  // Whether the model also learns BERT's second task: whether the second text
  // follows the first.
  bool next_sentence = false;
};

// Returns masked LM: h = LN(act(W x + b)), logits = h E^T + bias with the word
// embeddings E.
std::unique_ptr<Model> make_language_model(const LanguageModelDesign& design,
                                           const ModelConfig& config);

// Fills loss and logits of a task with a class for each token, from packed
// logits [total, classes], or [n, classes] with logits_to_keep; `limit`: name
// of the setting that gives the number of classes.
void add_token_classes(ModelOutput& out, const Var& logits,
                       const EncodedText& encoded, const TextInputs& inputs,
                       const char* limit);

// Fills loss, start_logits and end_logits of a task that marks a span of each
// sequence, from packed logits [total, 2]. The loss is the mean of two cross
// entropies over the positions of a sequence, for its start and its end (Devlin
// et al., 2019, Section 4.2); labels where the sequence has no token are
// ignored. Padding has logits of -1e30, so no span begins or ends there.
void add_spans(ModelOutput& out, const Var& logits, const EncodedText& encoded,
               const TextInputs& inputs);

}  // namespace ea
