// The Transformer of Vaswani et al. (NeurIPS 2017): embeddings, encoder and
// decoder.
#pragma once

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

// Sizes and rates read once from the options, checked; the names are those of
// Hugging Face's encoder-decoder configs.
struct TransformerSizes {
  explicit TransformerSizes(const Options& options);
  std::int64_t source_vocab, target_vocab, width, positions;
  std::int64_t encoder_layers, encoder_heads, encoder_intermediate;
  std::int64_t decoder_layers, decoder_heads, decoder_intermediate;
  double dropout, attention_dropout, eps;
  Activation activation;
  std::int64_t padding, start;
  bool norm_first, shared_words, scaled_words, tied_output;
};

// One side: words and positions, layers, and with pre-norm the last norm. The
// table of words may belong to both sides.
class TransformerSide : public Module {
 public:
  TransformerSide(const TransformerSizes& sizes, DType dtype, int num_layers,
                  const LayerMaker& make_layer);

  StackOutput forward(const Embedding& words, const PackedText& text,
                      const char* ids_name, const Wanted& wanted,
                      const Tokens& memory);
  // One more token of every sequence, at `position`, from caches.
  Var step(const Embedding& words, const Tensor& ids, std::int64_t position,
           std::vector<LayerCache>& caches);
  const Stack& stack() const { return stack_; }

 private:
  double scale_;
  SinusoidalPositions positions_;
  Dropout dropout_;
  Stack stack_;
  std::unique_ptr<LayerNorm> norm_;
};

struct EncodedPair {
  PackedText source, target;
  StackOutput encoder, decoder;
};

class TransformerBody : public Module {
 public:
  TransformerBody(const TransformerSizes& sizes, const ModelConfig& config);

  EncodedPair forward(const TextInputs& source, const TextInputs& target);
  const Var& target_words() const { return target_table().weight(); }

  // Of targets that are made token by token: the encoder's output; the decoder
  // on whole packed targets; and one token of each from caches.
  Tokens encode(const TextInputs& source);
  Var decode(const Tensor& ids, const std::vector<std::int64_t>& offsets,
             const Tokens& memory);
  // Needs can_cache().
  std::vector<LayerCache> start(const Tokens& memory) const;
  Var step(const Tensor& ids, std::int64_t position,
           std::vector<LayerCache>& caches);
  bool can_cache() const;
  bool reads_later_targets() const;

 private:
  PackedText packed_source(const TextInputs& source) const;
  std::vector<const DecoderLayer*> decoder_layers() const;
  // Of each decoder layer, how many earlier rows its cache keeps; none if maps
  // may depend on all rows.
  std::optional<std::vector<std::int64_t>> kept_rows(bool cross) const;
  PackedText packed(const TextInputs& inputs, std::int64_t heads) const;
  const Embedding& target_table() const {
    return target_words_ ? *target_words_ : source_words_;
  }

  TransformerSizes sizes_;
  Embedding source_words_;
  std::unique_ptr<Embedding> target_words_;  // unless it is the source's
  TransformerSide encoder_, decoder_;
};

}  // namespace ea
