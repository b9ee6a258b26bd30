// Base of the layers of a stack, and the state passed from layer to layer.
#pragma once

#include <vector>

#include "nn/attention/attention.h"
#include "nn/module.h"

namespace ea {

// The state passed from layer to layer.
struct LayerState {
  Var hidden;       // [tokens, width]
  Var block_input;  // hidden at the start of the current block of layers
  Carry carry;      // maps of the previous layer
  // For decoder layers: the encoder's output, and the maps of the previous
  // layer's cross-attention.
  Tokens memory = {};
  Carry cross_carry = {};
  // The hidden states before `hidden`, from the stack's input on. Only filled
  // in stacks with a layer that reads them.
  std::vector<Var> earlier = {};
};

struct LayerOutput {
  Var hidden;
  AttentionOutput attention;  // undefined if the layer has no attention
  AttentionOutput cross = {};
};

// Which maps the caller will use.
struct LayerWanted {
  AttentionWanted self, cross;
};

// State that a decoder layer keeps from token to token.
struct LayerCache {
  AttentionCache self, cross;
};

class Layer : public Module {
 public:
  // `packing`: the sequences of the tokens. With `rows` (int64 indices of
  // tokens), only these are computed after attention, and the output's `hidden`
  // contains only these.
  virtual LayerOutput forward(const LayerState& state,
                              const PackingPtr& packing,
                              const LayerWanted& wanted,
                              const Tensor& rows) = 0;
  // Computes forward() for one more token of every sequence, from caches. Only
  // decoder layers have it.
  virtual LayerOutput step(const LayerState& state, LayerCache& cache,
                           const LayerWanted& wanted);
  // Whether the layer has attention, and whether attention uses the carry.
  virtual bool attends() const { return true; }
  virtual bool takes_previous() const = 0;
  virtual bool takes_previous_cross() const { return false; }
  // Whether the next layer is the first of another block.
  virtual bool ends_block() const { return false; }
  // Whether forward() reads all of `earlier`.
  virtual bool reads_earlier() const { return false; }
};

}  // namespace ea
