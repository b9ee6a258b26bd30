// N encoder layers with the carried maps threaded through them.
#pragma once

#include <memory>
#include <vector>

#include "nn/blocks/chain.h"
#include "nn/blocks/encoder_layer.h"

namespace ea {

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
