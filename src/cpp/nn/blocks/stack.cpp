// The chain: the maps of one layer are an argument of the next.
#include "nn/blocks/stack.h"

#include <string>

#include "autograd/grad_mode.h"
#include "autograd/recompute.h"
#include "runtime/fast_paths.h"

namespace ea {

namespace {

EncoderLayerOutput recomputed(const std::shared_ptr<EncoderLayer>& layer,
                              const Var& hidden, const Var& previous,
                              const PackingPtr& packing,
                              const AttentionWanted& wanted) {
  const auto run = [layer, packing, wanted](const std::vector<Var>& inputs) {
    const TrainingMode training(*layer);
    EncoderLayerOutput y =
        layer->forward(inputs[0], inputs[1], packing, wanted);
    return std::vector<Var>{y.hidden, y.attention.carry,
                            y.attention.probabilities};
  };
  const Var map = layer->takes_previous() ? previous : Var();
  const std::vector<Var> y = recompute("encoder_layer", run, {hidden, map});
  return {y[0], {Var(), y[1], y[2]}};
}

}  // namespace

EncoderStack::EncoderStack(EncoderLayerConfig config, int num_layers,
                           const EvolveMaker& make_evolve) {
  config.attention.num_layers = num_layers;
  for (int i = 0; i < num_layers; ++i) {
    config.attention.layer = i;
    layers_.push_back(std::make_shared<EncoderLayer>(
        config, make_evolve({i, num_layers, config.attention.heads,
                             config.attention.dtype})));
    add_child("layer." + std::to_string(i), *layers_.back());
  }
}

StackOutput EncoderStack::forward(const Var& x, const PackingPtr& packing,
                                  const Wanted& wanted, const Tensor& rows) {
  const int n = static_cast<int>(layers_.size());
  check_wanted(wanted, n);
  StackOutput out;
  Var hidden = x;
  Var previous;
  const bool whole =
      !enabled(FastPath::first_tokens) || contains(wanted.hidden_states, n);
  if (contains(wanted.hidden_states, 0)) out.hidden_states[0] = hidden;
  for (int i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool last = i + 1 == n;
    const bool taken = !last && layers_[at + 1]->takes_previous();
    const AttentionWanted maps = maps_wanted(wanted, i, taken);
    // What a classifier's last layer keeps is needed first in backward: made
    // again it would take the same memory at the same moment.
    const bool again = recomputes() && training() && grad_enabled() &&
                       !(last && rows.defined());
    const EncoderLayerOutput layer =
        again ? recomputed(layers_[at], hidden, previous, packing, maps)
              : layers_[at]->forward(hidden, previous, packing, maps,
                                     last && !whole ? rows : Tensor());
    hidden = layer.hidden;
    previous = layer.attention.carry;
    keep(out, wanted, i, hidden, layer.attention);
  }
  out.last = whole && rows.defined() ? gather_rows(hidden, rows) : hidden;
  return out;
}

}  // namespace ea
