// The attention layers of a network of images, in order: what they carry, and
// which of their maps are kept.
#pragma once

#include "nn/blocks/chain.h"

namespace ea {

class MapChain {
 public:
  explicit MapChain(const Wanted& wanted) : wanted_(wanted) {
    wanted_.hidden_states.clear();  // of stages, not of attention layers
  }

  // Self attention of the next layer; the carry of the layer before goes on if
  // its maps have the same shape.
  Var attend(Attention& attention, const Tokens& tokens) {
    const AttentionOutput out = attention.forward(
        tokens, tokens, carry_, maps_wanted(wanted_, layer_, true));
    keep(kept_, wanted_, layer_++, {}, out, {});
    carry_ = out.carry;
    return out.context;
  }
  const StackOutput& kept() const { return kept_; }

 private:
  Wanted wanted_;
  Carry carry_;
  StackOutput kept_;
  int layer_ = 0;
};

}  // namespace ea
