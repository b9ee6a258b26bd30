// Selects and stores intermediate results.
#include "nn/blocks/chain.h"

#include <algorithm>

#include "runtime/check.h"

namespace ea {

namespace {

void check_indices(const char* name, const std::vector<int>& list, int last) {
  for (const int value : list) {
    EA_CHECK_AS(InputError, value >= 0 && value <= last, name,
                "index {} is outside 0 to {} of this model", value, last);
  }
}

}  // namespace

bool contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

void check_wanted(const Wanted& wanted, int layers) {
  check_indices("output_hidden_states", wanted.hidden_states, layers);
  check_indices("output_attentions", wanted.attentions, layers - 1);
  check_indices("output_attention_logits", wanted.attention_logits, layers - 1);
  check_indices("output_attention_scores", wanted.attention_scores, layers - 1);
}

AttentionWanted maps_wanted(const Wanted& wanted, int i, bool taken) {
  const bool logits = contains(wanted.attention_logits, i);
  const bool probabilities = contains(wanted.attentions, i);
  const bool scores = contains(wanted.attention_scores, i);
  return {taken || logits, probabilities, scores,
          logits || probabilities || scores};
}

void keep(StackOutput& out, const Wanted& wanted, int i, const Var& hidden,
          const AttentionOutput& attention, const AttentionOutput& cross) {
  const PackingPtr& own = attention.carry.packing;
  const PackingPtr& other = cross.carry.packing;
  if (contains(wanted.hidden_states, i + 1)) out.hidden_states[i + 1] = hidden;
  if (contains(wanted.attentions, i)) {
    out.attentions[i] = {attention.probabilities, own};
    if (other) out.cross_attentions[i] = {cross.probabilities, other};
  }
  if (contains(wanted.attention_logits, i)) {
    out.attention_logits[i] = {attention.carry.maps, own};
    if (other) out.cross_attention_logits[i] = {cross.carry.maps, other};
  }
  if (contains(wanted.attention_scores, i)) {
    out.attention_scores[i] = {attention.scores, own};
    if (other) out.cross_attention_scores[i] = {cross.scores, other};
  }
}

}  // namespace ea
