// Base of the layers of a stack, and the state passed from layer to layer.
#pragma once

#include "nn/attention/attention.h"
#include "nn/module.h"

namespace ea {

// The state passed from layer to layer.
struct LayerState {
  Var hidden;       // [tokens, width]
  Var block_input;  // hidden at the start of the current block of layers
  Carry carry;      // maps of the previous layer
};

struct LayerOutput {
  Var hidden;
  AttentionOutput attention;  // undefined if the layer has no attention
};

class Layer : public Module {
 public:
  // `packing`: the sequences of the tokens. With `rows` (int64 indices of
  // tokens) only these are computed after attention, and `hidden` has no
  // others.
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
