// The chain: the maps of one layer are an argument of the next.
#include "nn/blocks/stack.h"

#include <string>

#include "autograd/grad_mode.h"
#include "autograd/recompute.h"
#include "runtime/check.h"
#include "runtime/fast_paths.h"

namespace ea {

namespace {

LayerOutput recomputed(const std::shared_ptr<Layer>& layer,
                       const LayerState& state, const PackingPtr& packing,
                       const AttentionWanted& wanted) {
  const auto maps = std::make_shared<PackingPtr>();  // of this layer's carry
  const PackingPtr carried = state.carry.packing;
  const auto run = [layer, packing, wanted, maps,
                    carried](const std::vector<Var>& in) {
    const TrainingMode training(*layer);
    LayerOutput y = layer->forward({in[0], in[1], {in[2], carried}}, packing,
                                   wanted, Tensor());
    *maps = y.attention.carry.packing;
    return std::vector<Var>{y.hidden, y.attention.carry.maps,
                            y.attention.probabilities};
  };
  const std::vector<Var> y =
      recompute("layer", run,
                {state.hidden, layer->ends_block() ? state.block_input : Var(),
                 layer->takes_previous() ? state.carry.maps : Var()});
  return {y[0], {Var(), {y[1], *maps}, y[2]}};
}

}  // namespace

Stack::Stack(int num_layers, const LayerMaker& make_layer) {
  for (int i = 0; i < num_layers; ++i) {
    layers_.push_back(make_layer(i));
    add_child("layer." + std::to_string(i), *layers_.back());
  }
}

StackOutput Stack::forward(const Var& x, const PackingPtr& packing,
                           const Wanted& wanted, const Tensor& rows,
                           const LayerNorm* norm) {
  const int n = static_cast<int>(layers_.size());
  check_wanted(wanted, n);
  EA_CHECK_AS(
      InputError,
      layers_.empty() || layers_[0]->attends() ||
          (wanted.attentions.empty() && wanted.attention_logits.empty()),
      "forward",
      "attention maps are asked for, but these layers have no attention (with "
      "attention_ratio 0); leave output_attentions and "
      "output_attention_logits out");
  StackOutput out;
  LayerState state{x, x, {}};
  const bool whole =
      !enabled(FastPath::first_tokens) || contains(wanted.hidden_states, n);
  if (contains(wanted.hidden_states, 0)) out.hidden_states[0] = x;
  for (int i = 0; i < n; ++i) {
    const std::shared_ptr<Layer>& layer = layers_[static_cast<std::size_t>(i)];
    const bool last = i + 1 == n;
    const bool taken =
        !last && layers_[static_cast<std::size_t>(i) + 1]->takes_previous();
    const AttentionWanted maps = maps_wanted(wanted, i, taken);
    // Backward needs the activations of a classifier's last layer first:
    // recomputing them would save no memory at the peak.
    const bool again = recomputes() && training() && grad_enabled() &&
                       !(last && rows.defined());
    const LayerOutput y =
        again ? recomputed(layer, state, packing, maps)
              : layer->forward(state, packing, maps,
                               last && !whole ? rows : Tensor());
    state.hidden = last && norm != nullptr ? (*norm)(y.hidden) : y.hidden;
    state.carry = y.attention.carry;
    if (layer->ends_block()) state.block_input = y.hidden;
    keep(out, wanted, i, state.hidden, y.attention);
  }
  out.last =
      whole && rows.defined() ? gather_rows(state.hidden, rows) : state.hidden;
  return out;
}

}  // namespace ea
