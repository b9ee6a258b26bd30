// Losses and heads that tasks add to an encoder.
#pragma once

#include <string>

#include "models/bert_encoder.h"

namespace ea {

// Loss of a sequence task: mean squared error for one label, cross entropy for
// classes, binary cross entropy for labels in the shape of the logits. Throws
// DTypeError or InputError for labels that do not fit.
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

// Fills loss and logits of a language-model output from packed logits.
void add_language_model(ModelOutput& out, const Var& logits,
                        const EncodedText& encoded, const TextInputs& inputs);

}  // namespace ea
