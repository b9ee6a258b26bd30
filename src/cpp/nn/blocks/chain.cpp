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

void keep_maps(KeptMaps& out, const Wanted& wanted, int i,
               const AttentionOutput& attention) {
  const PackingPtr& layout = attention.carry.packing;
  if (contains(wanted.attentions, i)) {
    out.probabilities[i] = {attention.probabilities, layout};
  }
  if (contains(wanted.attention_logits, i)) {
    out.logits[i] = {attention.carry.maps, layout};
  }
  if (contains(wanted.attention_scores, i)) {
    out.scores[i] = {attention.scores, layout};
  }
}

void keep(StackOutput& out, const Wanted& wanted, int i, const Var& hidden,
          const AttentionOutput& attention, const AttentionOutput& cross) {
  if (contains(wanted.hidden_states, i + 1)) out.hidden_states[i + 1] = hidden;
  keep_maps(out.maps, wanted, i, attention);
  if (cross.carry.packing) keep_maps(out.cross_maps, wanted, i, cross);
}

}  // namespace ea
