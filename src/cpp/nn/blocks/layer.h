// One layer of a stack, of any kind, and what goes from layer to layer.
#pragma once

#include "nn/attention/attention.h"
#include "nn/module.h"

namespace ea {

// What changes from layer to layer.
struct LayerState {
  Var hidden;       // [tokens, width]
  Var block_input;  // hidden at the start of the block of layers at hand
  Carry carry;      // maps of the layer before
};

struct LayerOutput {
  Var hidden;
  AttentionOutput attention;  // undefined where the layer has none
};

class Layer : public Module {
 public:
  // `packing`: the sequences of the tokens. With `rows` (int64 indices of
  // tokens) only these go on behind attention, and `hidden` holds them alone.
  virtual LayerOutput forward(const LayerState& state,
                              const PackingPtr& packing,
                              const AttentionWanted& wanted,
                              const Tensor& rows) = 0;
  // Whether there is attention, and whether it uses the carry.
  virtual bool attends() const { return true; }
  virtual bool takes_previous() const = 0;
  // Whether the next layer is the first of another block.
  virtual bool ends_block() const { return false; }
};

}  // namespace ea
