// Runs a block with its part of the chain, and recomputes it in backward.
#include "nn/blocks/map_chain.h"

#include <utility>

#include "autograd/grad_mode.h"
#include "autograd/recompute.h"

namespace ea {

MapChain::MapChain(const Wanted& wanted, const ImageStages& stages)
    : wanted_(wanted) {
  wanted_.hidden_states.clear();  // indices of stages, not of attention layers
  for (const auto& stage : stages) {
    for (const auto& block : stage) taken_ |= block->takes_previous();
  }
}

MapChain MapChain::layouts() const {
  MapChain chain(*this);
  chain.carry_.maps = {};
  for (auto* maps : chain.lists()) {
    for (auto& [layer, map] : *maps) map.maps = {};
  }
  return chain;
}

template <typename Fn>
void MapChain::each_kept(Fn&& fn) {
  for (auto* maps : lists()) {
    for (auto& [layer, map] : *maps) {
      const bool carried = maps == &kept_.logits && layer + 1 == layer_;
      if (!carried) fn(map.maps);
    }
  }
}

Var MapChain::run(const std::shared_ptr<ImageBlock>& block,
                  std::vector<Var> earlier) {
  if (!block->recomputes() || !block->training() || !grad_enabled()) {
    return block->forward(std::move(earlier), *this);
  }
  // No Vars here: a graph node owns the function, and Vars would keep their
  // graphs.
  MapChain before = layouts();
  before.kept_ = {};
  const auto behind = std::make_shared<MapChain>(before);
  const auto run = [block, before, behind](const std::vector<Var>& in) {
    const TrainingMode training(*block);
    MapChain chain = before;
    chain.carry_.maps = in[0];
    const Var y = block->forward({in.begin() + 1, in.end()}, chain);
    std::vector<Var> out{y, chain.carry_.maps};
    chain.each_kept([&out](const Var& map) { out.push_back(map); });
    *behind = chain.layouts();
    return out;
  };
  std::vector<Var> inputs{carry_.maps};
  inputs.insert(inputs.end(), earlier.begin(), earlier.end());
  const std::vector<Var> out = recompute("block", run, inputs);
  MapChain ran = *behind;
  std::size_t at = 2;
  ran.each_kept([&](Var& map) { map = out[at++]; });
  ran.carry_.maps = out[1];
  const auto carried = ran.kept_.logits.find(ran.layer_ - 1);
  if (carried != ran.kept_.logits.end()) carried->second.maps = out[1];
  for (std::size_t i = 0; i < lists().size(); ++i) {
    ran.lists()[i]->merge(*lists()[i]);
  }
  *this = std::move(ran);
  return out[0];
}

}  // namespace ea
