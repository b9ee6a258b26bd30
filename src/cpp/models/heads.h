// Losses and heads that tasks add to an encoder.
#pragma once

#include <string>

#include "models/bert_encoder.h"

namespace ea {

// Returns the loss of logits [rows, classes]: mean squared error for one label,
// cross entropy for classes, binary cross entropy for labels in the shape of
// the logits. Throws DTypeError or InputError for labels that do not fit;
// `rows` is their name in messages.
Var row_loss(const Var& logits, const Tensor& labels, double label_smoothing,
             const char* rows);
// row_loss() for a task of sequences.
Var sequence_loss(const Var& logits, const TextInputs& inputs);

// h = LN(gelu(W x + b)), logits = h E^T + bias with the word embeddings E.
class LanguageModelHead : public Module {
 public:
  // Names of the two inner modules differ between BERT and RoBERTa.
  LanguageModelHead(const BertSizes& sizes, DType dtype,
                    const std::string& dense, const std::string& norm,
                    Activation activation);
  Var forward(const Var& rows, const Var& word_weight);

 private:
  Linear dense_;
  LayerNorm norm_;
  Var bias_;
  Activation activation_;
};

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
