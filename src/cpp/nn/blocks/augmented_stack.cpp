// The chain of maps through all layers, and the residual over each block.
#include "nn/blocks/augmented_stack.h"

#include <string>

#include "autograd/grad_mode.h"
#include "autograd/recompute.h"
#include "runtime/check.h"

namespace ea {

namespace {

constexpr int kLayersPerBlock = 2;

AugmentedLayerOutput recomputed(const std::shared_ptr<AugmentedLayer>& layer,
                                const Var& hidden, const Var& block_input,
                                const Var& previous, const PackingPtr& packing,
                                const AttentionWanted& wanted) {
  const auto run = [layer, packing, wanted](const std::vector<Var>& inputs) {
    const TrainingMode training(*layer);
    AugmentedLayerOutput y =
        layer->forward(inputs[0], inputs[1], inputs[2], packing, wanted);
    return std::vector<Var>{y.hidden, y.attention.carry,
                            y.attention.probabilities};
  };
  const Var skip = layer->ends_block() ? block_input : Var();
  const Var map = layer->takes_previous() ? previous : Var();
  const std::vector<Var> y =
      recompute("augmented_layer", run, {hidden, skip, map});
  return {y[0], {Var(), y[1], y[2]}};
}

}  // namespace

AugmentedStack::AugmentedStack(AugmentedLayerConfig config, int num_blocks,
                               std::int64_t dilation_base,
                               const BiasMaker& make_bias,
                               const EvolveMaker& make_evolve)
    : attends_(config.attention.inner_size > 0) {
  AttentionConfig& a = config.attention;
  a.num_layers = kLayersPerBlock * num_blocks;
  config.dilation = 1;
  for (int i = 0; i < a.num_layers; ++i) {
    if (i > 0 && i % kLayersPerBlock == 0) config.dilation *= dilation_base;
    a.layer = i;
    config.ends_block = i % kLayersPerBlock == kLayersPerBlock - 1;
    layers_.push_back(std::make_shared<AugmentedLayer>(
        config, attends_ ? make_bias() : nullptr,
        attends_ ? make_evolve({i, a.num_layers, a.heads, a.dtype}) : nullptr));
    add_child("layer." + std::to_string(i), *layers_.back());
  }
}

StackOutput AugmentedStack::forward(const Var& x, const PackingPtr& packing,
                                    const Wanted& wanted) {
  const int n = static_cast<int>(layers_.size());
  check_wanted(wanted, n);
  EA_CHECK_AS(
      InputError,
      attends_ ||
          (wanted.attentions.empty() && wanted.attention_logits.empty()),
      "forward",
      "attention maps are asked for, but with attention_ratio 0 there is no "
      "attention; leave output_attentions and output_attention_logits out");
  StackOutput out;
  Var hidden = x;
  Var block_input = x;
  Var previous;
  if (contains(wanted.hidden_states, 0)) out.hidden_states[0] = hidden;
  for (int i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool taken = i + 1 < n && layers_[at + 1]->takes_previous();
    const AttentionWanted maps = maps_wanted(wanted, i, taken);
    const bool again = recomputes() && training() && grad_enabled();
    const AugmentedLayerOutput layer =
        again ? recomputed(layers_[at], hidden, block_input, previous, packing,
                           maps)
              : layers_[at]->forward(hidden, block_input, previous, packing,
                                     maps);
    hidden = layer.hidden;
    if (layers_[at]->ends_block()) block_input = hidden;
    previous = layer.attention.carry;
    keep(out, wanted, i, hidden, layer.attention);
  }
  out.last = hidden;
  return out;
}

}  // namespace ea
