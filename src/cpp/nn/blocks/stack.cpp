// The chain: the maps of one layer are an argument of the next.
#include "nn/blocks/stack.h"

#include <algorithm>
#include <string>

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

}  // namespace

EncoderStack::EncoderStack(EncoderLayerConfig config, int num_layers,
                           const EvolveMaker& make_evolve) {
  config.attention.num_layers = num_layers;
  for (int i = 0; i < num_layers; ++i) {
    config.attention.layer = i;
    layers_.push_back(std::make_unique<EncoderLayer>(
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
    EncoderLayerOutput layer =
        layers_[at]->forward(hidden, previous, packing,
                             {taken || contains(wanted.attention_logits, i),
                              contains(wanted.attentions, i)},
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
