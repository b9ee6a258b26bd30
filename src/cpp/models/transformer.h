// Encoder and decoder of transformer layers (Vaswani et al., NeurIPS 2017), the
// body of several architectures.
#pragma once

#include <limits>
#include <memory>
#include <optional>

#include "models/model.h"
#include "models/text_inputs.h"
#include "nn/blocks/decoder_layer.h"
#include "nn/blocks/stack.h"
#include "nn/blocks/sublayers.h"
#include "nn/layers.h"
#include "nn/positions.h"

namespace ea {

// One side: encoder or decoder.
struct TransformerSideDesign {
  int layers = 0;
  LayerMaker make_layer;
};

// The names of the body's parts in checkpoints.
struct TransformerNames {
  const char* body = "transformer";                  // in models with a task
  const char* words = "embeddings.word_embeddings";  // for both sides
  const char* layer = "layer";
  const char* norm = "LayerNorm";
};

// Sizes against which calls are checked.
struct TransformerSizes {
  static constexpr std::int64_t kNoLimit =
      std::numeric_limits<std::int64_t>::max();

  std::int64_t source_vocab = 1, target_vocab = 1, width = 1;
  const char* target_vocab_option = "vocab_size";  // in messages
  std::int64_t encoder_heads = 1, decoder_heads = 1;
  std::int64_t positions = kNoLimit;    // the longest sequence
  std::int64_t padding = 0, start = 0;  // token ids
};

// All settings in which the architectures differ, read from the options and
// checked.
struct TransformerDesign : TransformerSizes {
  TransformerSideDesign encoder, decoder;

  // Word embeddings: one table for both sides, or one each; times `word_scale`.
  bool shared_words = true;
  double word_scale = 1.0;
  Init word_init;
  std::int64_t idle_word = -1;  // the row that no gradient reaches, if any
  bool sinusoids = false;       // positions added to the words

  double dropout = 0.0;  // of the words; with dropout_last, also at the end
  std::optional<NormConfig> last_norm;  // after the last layer
  bool dropout_last = false;

  // logits = output_scale h E^T, E being the target's words or another matrix.
  bool tied_output = true;
  double output_scale = 1.0;
  Init output_init;

  TransformerNames names;
};

// The logits of hidden states h: scale h W^T.
struct OutputMatrix {
  Var weight;  // [vocabulary, width]
  double scale = 1.0;

  Var logits(const Var& h) const;
};

// Word embeddings, optional positions, layers, and the last norm of pre-norm
// models. Both sides may share the table of words.
class TransformerSide : public Module {
 public:
  TransformerSide(const TransformerDesign& design,
                  const TransformerSideDesign& side, DType dtype);

  StackOutput forward(const Embedding& words, const PackedText& text,
                      const char* ids_name, const Wanted& wanted,
                      const Tokens& memory);
  // Computes one more token of every sequence, at `position`, from caches.
  Var step(const Embedding& words, const Tensor& ids, std::int64_t position,
           std::vector<LayerCache>& caches);
  const Stack& stack() const { return stack_; }

 private:
  double scale_;
  std::optional<SinusoidalPositions> positions_;
  Dropout dropout_, last_dropout_;
  Stack stack_;
  std::unique_ptr<Norm> norm_;
};

struct EncodedPair {
  PackedText source, target;
  StackOutput encoder, decoder;
};

class TransformerBody : public Module {
 public:
  TransformerBody(const TransformerDesign& design, DType dtype);

  EncodedPair forward(const TextInputs& source, const TextInputs& target);
  const Var& target_words() const { return target_table().weight(); }

  // For targets generated token by token: encode() returns the encoder's
  // output, decode() runs the decoder on whole packed targets, step() computes
  // one token of each target from caches.
  Tokens encode(const TextInputs& source);
  Var decode(const Tensor& ids, const std::vector<std::int64_t>& offsets,
             const Tokens& memory);
  // Requires can_cache().
  std::vector<LayerCache> start(const Tokens& memory) const;
  Var step(const Tensor& ids, std::int64_t position,
           std::vector<LayerCache>& caches);
  bool can_cache() const;
  bool reads_later_targets() const;

 private:
  PackedText packed_source(const TextInputs& source) const;
  std::vector<const DecoderLayer*> decoder_layers() const;
  // Returns the plan of each decoder layer; none if maps may depend on all
  // rows.
  std::optional<std::vector<CachePlan>> cache_plans(bool cross) const;
  PackedText packed(const TextInputs& inputs, std::int64_t heads) const;
  const Embedding& target_table() const {
    return target_words_ ? *target_words_ : source_words_;
  }

  TransformerSizes sizes_;
  Embedding source_words_;
  std::unique_ptr<Embedding> target_words_;  // null if shared with the source
  TransformerSide encoder_, decoder_;
};

// Returns the specs of the attention layers that the config calls `name`.
const AttentionSpecs& specs_of(const ModelConfig& model, const char* name);

}  // namespace ea
