// Implements the chain: the maps of one layer are an argument of the next.
#include "nn/blocks/stack.h"

#include <algorithm>
#include <string>

#include "autograd/grad_mode.h"
#include "autograd/recompute.h"
#include "runtime/check.h"
#include "runtime/fast_paths.h"

namespace ea {

namespace {

LayerOutput recomputed(const std::shared_ptr<Layer>& layer,
                       const LayerState& state, const PackingPtr& packing,
                       const LayerWanted& wanted) {
  // The carries of this layer, and of the previous one, without their maps.
  struct Carries {
    Carry self, cross;
  };
  const auto made = std::make_shared<Carries>();
  const Carries before{state.carry.without_maps(),
                       state.cross_carry.without_maps()};
  const Var bias = state.carry.shared_bias;
  const PackingPtr memory = state.memory.packing;
  constexpr std::size_t kOthers = 6;  // inputs before the earlier states
  const auto run = [layer, packing, wanted, made, before,
                    memory](const std::vector<Var>& in) {
    const TrainingMode training(*layer);
    const std::vector<Var> earlier(in.begin() + kOthers, in.end());
    Carries given = before;
    given.self.maps = in[2];
    given.self.shared_bias = in[5];
    given.cross.maps = in[4];
    LayerOutput y = layer->forward(
        {in[0], in[1], given.self, {in[3], memory}, given.cross, earlier},
        packing, wanted, Tensor());
    *made = {y.attention.carry.without_maps(), y.cross.carry.without_maps()};
    const Var& shared = y.attention.carry.shared_bias;
    return std::vector<Var>{y.hidden,
                            y.attention.carry.maps,
                            y.attention.probabilities,
                            y.attention.scores,
                            y.cross.carry.maps,
                            y.cross.probabilities,
                            y.cross.scores,
                            shared.impl() == in[5].impl() ? Var() : shared};
  };
  std::vector<Var> inputs{
      state.hidden,
      layer->ends_block() ? state.block_input : Var(),
      layer->takes_previous() ? state.carry.maps : Var(),
      state.memory.rows,
      layer->takes_previous_cross() ? state.cross_carry.maps : Var(),
      bias};
  if (layer->reads_earlier()) {
    inputs.insert(inputs.end(), state.earlier.begin(), state.earlier.end());
  }
  const std::vector<Var> y = recompute("layer", run, inputs);
  Carries next = *made;
  next.self.maps = y[1];
  next.self.shared_bias = y[7].defined() ? y[7] : bias;
  next.cross.maps = y[4];
  return {y[0],
          {Var(), std::move(next.self), y[2], y[3]},
          {Var(), std::move(next.cross), y[5], y[6]}};
}

}  // namespace

Stack::Stack(int num_layers, const LayerMaker& make_layer, const char* name) {
  const std::string prefix = std::string(name) + ".";
  for (int i = 0; i < num_layers; ++i) {
    layers_.push_back(make_layer(i));
    add_child(prefix + std::to_string(i), *layers_.back());
  }
}

StackOutput Stack::forward(const Var& x, const PackingPtr& packing,
                           const Wanted& wanted, const Tensor& rows,
                           const Norm* norm, const Tokens& memory) {
  const int n = static_cast<int>(layers_.size());
  check_wanted(wanted, n);
  EA_CHECK_AS(
      InputError,
      layers_.empty() || layers_[0]->attends() ||
          (wanted.attentions.empty() && wanted.attention_logits.empty() &&
           wanted.attention_scores.empty()),
      "forward",
      "attention maps are asked for, but these layers have no attention (with "
      "attention_ratio 0); leave output_attentions, "
      "output_attention_logits and output_attention_scores out");
  StackOutput out;
  LayerState state{x, x, {}, memory, {}};
  const bool whole =
      !enabled(FastPath::first_tokens) || contains(wanted.hidden_states, n);
  const bool dense =
      std::any_of(layers_.begin(), layers_.end(),
                  [](const auto& layer) { return layer->reads_earlier(); });
  if (contains(wanted.hidden_states, 0)) out.hidden_states[0] = x;
  for (int i = 0; i < n; ++i) {
    const std::shared_ptr<Layer>& layer = layers_[static_cast<std::size_t>(i)];
    const bool last = i + 1 == n;
    const Layer* next =
        last ? nullptr : layers_[static_cast<std::size_t>(i) + 1].get();
    const LayerWanted maps{
        maps_wanted(wanted, i, !last && next->takes_previous()),
        maps_wanted(wanted, i, !last && next->takes_previous_cross())};
    // Backward first needs the activations of a classifier's last layer:
    // recomputing them would not reduce peak memory.
    const bool again = recomputes() && training() && grad_enabled() &&
                       !(last && rows.defined());
    const LayerOutput y =
        again ? recomputed(layer, state, packing, maps)
              : layer->forward(state, packing, maps,
                               last && !whole ? rows : Tensor());
    if (dense) state.earlier.push_back(state.hidden);
    state.hidden = last && norm != nullptr ? (*norm)(y.hidden) : y.hidden;
    state.carry = y.attention.carry;
    state.cross_carry = y.cross.carry;
    if (layer->ends_block()) state.block_input = y.hidden;
    keep(out, wanted, i, state.hidden, y.attention, y.cross);
  }
  out.last =
      whole && rows.defined() ? gather_rows(state.hidden, rows) : state.hidden;
  return out;
}

LayerOutput Layer::step(const LayerState& /*state*/, LayerCache& /*cache*/,
                        const LayerWanted& /*wanted*/) {
  fail<ConfigError>("layer", "this layer has no caches; expected a decoder's");
}

Var Stack::step(const Var& x, std::vector<LayerCache>& caches,
                const Norm* norm) {
  const std::size_t n = layers_.size();
  LayerState state{x, x, {}};
  for (std::size_t i = 0; i < n; ++i) {
    const Layer* next = i + 1 < n ? layers_[i + 1].get() : nullptr;
    const LayerWanted wanted{
        {next != nullptr && next->takes_previous(), false},
        {next != nullptr && next->takes_previous_cross(), false}};
    LayerOutput y = layers_[i]->step(state, caches[i], wanted);
    state.hidden = y.hidden;
    state.carry = y.attention.carry;
    state.cross_carry = y.cross.carry;
  }
  return norm != nullptr ? (*norm)(state.hidden) : state.hidden;
}

}  // namespace ea
