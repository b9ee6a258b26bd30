// The body of EA-DC-Transformer: embedding and the stack of augmented layers.
#pragma once

#include "models/model.h"
#include "models/series_inputs.h"
#include "nn/blocks/augmented_layer.h"
#include "nn/blocks/stack.h"

namespace ea {

// Checked sizes and rates, read once from the options.
struct SeriesSizes {
  explicit SeriesSizes(const Options& options);
  std::int64_t channels, max_length, hidden, blocks, heads, inner, intermediate;
  std::int64_t kernel_size, dilation_base, num_labels, num_targets;
  std::int64_t classifier_hidden;  // 0: the head is one affine map
  bool causal, layer_norm, learned_positions, relative, mean_pooling, released;
  double hidden_dropout, attention_dropout, classifier_dropout;
  Activation activation;
};

// x -> sqrt(d) W x + b sqrt(d) + e_t, with dropout.
class SeriesEmbedding : public Module {
 public:
  SeriesEmbedding(const SeriesSizes& sizes, DType dtype);
  Var forward(const PackedSeries& series) const;
  Device device() const { return projection_.device(); }

 private:
  double scale_;
  Linear projection_;
  std::unique_ptr<Embedding> positions_;
  Dropout dropout_;
};

struct EncodedSeries {
  PackedSeries series;
  StackOutput stack;
};

class SeriesEncoder : public Module {
 public:
  SeriesEncoder(const SeriesSizes& sizes, const ModelConfig& config);
  EncodedSeries forward(const SeriesInputs& inputs);

 private:
  SeriesSizes sizes_;
  DType dtype_;
  SeriesEmbedding embedding_;
  Stack stack_;
};

}  // namespace ea
