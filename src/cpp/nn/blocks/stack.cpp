// The chain: the maps of one layer are an argument of the next.
#include "nn/blocks/stack.h"

#include <algorithm>
#include <string>

#include "autograd/grad_mode.h"
#include "autograd/recompute.h"
#include "runtime/check.h"
#include "runtime/fast_paths.h"

namespace ea {

namespace {

bool contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

void check_indices(const char* name, const std::vector<int>& list, int last) {
  for (const int value : list) {
    EA_CHECK_AS(InputError, value >= 0 && value <= last, name,
                "index {} is outside 0 to {} of this model", value, last);
  }
}

// Training mode while it lives: the user may have turned to evaluation between
// the forward pass and the backward pass that runs a layer again.
class TrainingMode {
 public:
  explicit TrainingMode(Module& module)
      : module_(module), before_(module.training()) {
    if (!before_) module_.train(true);
  }
  ~TrainingMode() {
    if (!before_) module_.train(false);
  }
  TrainingMode(const TrainingMode&) = delete;
  TrainingMode& operator=(const TrainingMode&) = delete;

 private:
  Module& module_;
  bool before_;
};

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
  check_indices("output_hidden_states", wanted.hidden_states, n);
  check_indices("output_attentions", wanted.attentions, n - 1);
  check_indices("output_attention_logits", wanted.attention_logits, n - 1);
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
    const AttentionWanted maps{taken || contains(wanted.attention_logits, i),
                               contains(wanted.attentions, i)};
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
    if (contains(wanted.hidden_states, i + 1))
      out.hidden_states[i + 1] = hidden;
    if (contains(wanted.attentions, i)) {
      out.attentions[i] = layer.attention.probabilities;
    }
    if (contains(wanted.attention_logits, i)) {
      out.attention_logits[i] = previous;
    }
  }
  out.last = whole && rows.defined() ? gather_rows(hidden, rows) : hidden;
  return out;
}

}  // namespace ea
