// The shared body of BERT and RoBERTa: embeddings, encoder stack, pooler.
#pragma once

#include <memory>

#include "models/model.h"
#include "models/text_inputs.h"
#include "nn/blocks/encoder_layer.h"
#include "nn/blocks/stack.h"
#include "nn/layers.h"

namespace ea {

// Checked sizes and rates, read once from the options.
struct BertSizes {
  explicit BertSizes(const Options& options);
  std::int64_t vocab, hidden, layers, heads, intermediate, positions, types;
  std::int64_t num_labels, classifier_hidden;  // the latter 0: no such layer
  double hidden_dropout, attention_dropout, classifier_dropout, eps, init_std;
  Activation activation;
  std::int64_t pad_token_id;
  bool norm_first;
};

class BertEmbeddings : public Module {
 public:
  // `position_padding`: the position of padding ids, or -1 (see PositionRule).
  BertEmbeddings(const BertSizes& sizes, DType dtype,
                 std::int64_t position_padding);
  Var forward(const PackedText& text);
  const Var& word_weight() const { return word_.weight(); }

 private:
  Embedding word_, position_, type_;
  LayerNorm norm_;
  Dropout dropout_;
};

// Rows of the last layer that a task reads; kept_tokens: the rows that the
// input logits_to_keep names, or all without it.
enum class Reads : std::uint8_t { all_tokens, first_tokens, kept_tokens };

struct EncodedText {
  PackedText text;
  StackOutput stack;  // stack.last: the rows that the task reads
  Var pooled;         // undefined without a pooler
};

// The encoder of Devlin et al., 2019. `padding_id` >= 0 selects RoBERTa's
// positions, `norm_first` the layers and names of Hugging Face's
// RoBERTa-PreLayerNorm.
class BertEncoder : public Module {
 public:
  BertEncoder(const BertSizes& sizes, const ModelConfig& config, bool pooler,
              std::int64_t padding_id);

  EncodedText forward(const TextInputs& inputs, Reads reads);
  const Var& word_weight() const { return embeddings_.word_weight(); }

 private:
  BertSizes sizes_;
  PositionRule rule_;
  BertEmbeddings embeddings_;
  Stack stack_;
  std::unique_ptr<Norm> norm_;  // after pre-norm layers
  std::unique_ptr<Linear> pooler_;
};

// The encoder without a task (BertModel, RobertaModel).
class BertModel final : public Model {
 public:
  BertModel(const ModelConfig& config, std::int64_t padding_id);
  ModelOutput forward(const Inputs& inputs) override;

 private:
  BertEncoder encoder_;
};

}  // namespace ea
