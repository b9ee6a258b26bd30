// N encoder layers with the carried maps threaded through them.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "nn/blocks/encoder_layer.h"

namespace ea {

// Which intermediate results to keep, by index.
struct Wanted {
  std::vector<int> hidden_states;     // 0: embeddings, i: after layer i
  std::vector<int> attentions;        // 0-based layers: probabilities
  std::vector<int> attention_logits;  // 0-based layers: the carried maps
};

struct StackOutput {
  Var last;  // of all tokens, or of the rows that were asked for
  std::map<int, Var> hidden_states, attentions, attention_logits;
};

class EncoderStack : public Module {
 public:
  // `config.attention.layer` is set for each layer here.
  EncoderStack(EncoderLayerConfig config, int num_layers,
               const EvolveMaker& make_evolve);

  // `rows`: the tokens (int64 indices) that the caller reads of the last layer;
  // undefined: all. What no one reads is not computed.
  StackOutput forward(const Var& x, const PackingPtr& packing,
                      const Wanted& wanted, const Tensor& rows = {});

 private:
  // Shared with graphs that run a layer again: they may outlive the model.
  std::vector<std::shared_ptr<EncoderLayer>> layers_;
};

}  // namespace ea
