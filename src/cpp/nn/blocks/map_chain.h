// Chain of the attention layers of an image network: carried and kept maps.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "nn/blocks/chain.h"

namespace ea {

class MapChain;

// Part of an image network: a function of its stage's outputs so far, of which
// every block reads the last, and of the chain.
class ImageBlock : public Module {
 public:
  virtual Var forward(std::vector<Var> earlier, MapChain& chain) = 0;
  // Whether an attention layer of the block uses the previous layer's maps.
  virtual bool takes_previous() const = 0;
};

using ImageStages = std::vector<std::vector<std::shared_ptr<ImageBlock>>>;

class MapChain {
 public:
  MapChain(const Wanted& wanted, const ImageStages& stages);

  // Runs self-attention of the next layer. The previous layer's carry continues
  // if its maps have the same shape.
  Var attend(Attention& attention, const Tokens& tokens) {
    const AttentionOutput out = attention.forward(
        tokens, tokens, carry_, maps_wanted(wanted_, layer_, taken_));
    keep_maps(kept_, wanted_, layer_++, out);
    carry_ = out.carry;
    return out.context;
  }
  // Runs block->forward(earlier, *this). In training of a block that
  // recomputes, backward runs it again. The block is shared, since the graph
  // may outlive the model.
  Var run(const std::shared_ptr<ImageBlock>& block, std::vector<Var> earlier);
  const KeptMaps& kept() const { return kept_; }

 private:
  std::array<std::map<int, Carry>*, 3> lists() {
    return {&kept_.probabilities, &kept_.scores, &kept_.logits};
  }
  // Calls fn(map) for the kept maps, except the carried one, in a fixed order.
  template <typename Fn>
  void each_kept(Fn&& fn);
  // Returns this chain with undefined maps.
  MapChain layouts() const;

  Wanted wanted_;
  bool taken_ = false;  // whether any layer reads carried maps
  Carry carry_;
  KeptMaps kept_;
  int layer_ = 0;
};

}  // namespace ea
