// Blocks of two augmented layers, their dilations growing by the block.
#pragma once

#include <memory>
#include <vector>

#include "nn/blocks/augmented_layer.h"
#include "nn/blocks/chain.h"

namespace ea {

// Makes the bias slot of one layer, or null.
using BiasMaker = std::function<std::unique_ptr<Bias>()>;

class AugmentedStack : public Module {
 public:
  // `config.dilation`, `ends_block` and `attention.layer` are set for each
  // layer here: block b, from 0, has the dilation dilation_base^b.
  AugmentedStack(AugmentedLayerConfig config, int num_blocks,
                 std::int64_t dilation_base, const BiasMaker& make_bias,
                 const EvolveMaker& make_evolve);

  StackOutput forward(const Var& x, const PackingPtr& packing,
                      const Wanted& wanted);

 private:
  bool attends_;
  // Shared with graphs that run a layer again: they may outlive the model.
  std::vector<std::shared_ptr<AugmentedLayer>> layers_;
};

}  // namespace ea
