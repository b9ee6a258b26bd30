// Runs layers in order and passes the carried maps from one to the next.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "nn/blocks/chain.h"
#include "nn/blocks/layer.h"

namespace ea {

// Makes layer i of a stack.
using LayerMaker = std::function<std::shared_ptr<Layer>(int i)>;

class Stack : public Module {
 public:
  // The layers are called "`name`.0", "`name`.1", ...
  Stack(int num_layers, const LayerMaker& make_layer,
        const char* name = "layer");

  // `rows`: int64 indices of the tokens of the last layer that the caller
  // reads; the others are not computed; undefined: all. `norm` follows the last
  // layer of a pre-norm model, and its result is the last hidden state.
  // `memory`: the encoder's output, for decoder layers.
  StackOutput forward(const Var& x, const PackingPtr& packing,
                      const Wanted& wanted, const Tensor& rows = {},
                      const Norm* norm = nullptr, const Tokens& memory = {});

  // Computes forward() for one more token of every sequence, [sequences,
  // width], with the caches of the layers.
  Var step(const Var& x, std::vector<LayerCache>& caches,
           const Norm* norm = nullptr);
  const std::vector<std::shared_ptr<Layer>>& layers() const { return layers_; }

 private:
  // Shared with graphs that recompute a layer and may outlive the model.
  std::vector<std::shared_ptr<Layer>> layers_;
};

}  // namespace ea
