// The attention layers of a network of images, in order: what they carry, and
// which of their maps are kept.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "nn/blocks/chain.h"

namespace ea {

class MapChain;

// A part of a network of images: a function of what its stage has so far, the
// last of which every block reads, and of the chain.
class ImageBlock : public Module {
 public:
  virtual Var forward(std::vector<Var> earlier, MapChain& chain) = 0;
  // Whether an attention layer of the block uses the maps of the one before.
  virtual bool takes_previous() const = 0;
};

using ImageStages = std::vector<std::vector<std::shared_ptr<ImageBlock>>>;

class MapChain {
 public:
  MapChain(const Wanted& wanted, const ImageStages& stages);

  // Self attention of the next layer; the carry of the layer before goes on if
  // its maps have the same shape.
  Var attend(Attention& attention, const Tokens& tokens) {
    const AttentionOutput out = attention.forward(
        tokens, tokens, carry_, maps_wanted(wanted_, layer_, taken_));
    keep(kept_, wanted_, layer_++, {}, out, {});
    carry_ = out.carry;
    return out.context;
  }
  // block->forward(earlier, *this); in training of a module that recomputes,
  // backward runs it again. Shared, for the graph may outlive the model.
  Var run(const std::shared_ptr<ImageBlock>& block, std::vector<Var> earlier);
  const StackOutput& kept() const { return kept_; }

 private:
  std::array<std::map<int, Carry>*, 3> lists() {
    return {&kept_.attentions, &kept_.attention_scores,
            &kept_.attention_logits};
  }
  // Calls fn(map) for the kept maps in a fixed order, without the carried one.
  template <typename Fn>
  void each_kept(Fn&& fn);
  // This chain with undefined maps.
  MapChain layouts() const;

  Wanted wanted_;
  bool taken_ = false;  // by a layer; else none hands on maps
  Carry carry_;
  StackOutput kept_;
  int layer_ = 0;
};

}  // namespace ea
