// Helpers for stacks: requested outputs, and the mode of a recomputation.
#pragma once

#include <map>
#include <vector>

#include "nn/attention/attention.h"
#include "nn/module.h"

namespace ea {

// Which intermediate results to keep, by index.
struct Wanted {
  std::vector<int> hidden_states;     // 0: embeddings, i: after layer i
  std::vector<int> attentions;        // 0-based layers: probabilities
  std::vector<int> attention_logits;  // 0-based layers: the carried maps
  std::vector<int> attention_scores;  // 0-based layers: before evolving
};  // for decoders, the three lists of maps cover both kinds of attention

// Requested maps of one kind of attention, by layer.
struct KeptMaps {
  std::map<int, Carry> probabilities, logits, scores;
};

struct StackOutput {
  Var last;  // hidden states of all tokens, or of the requested rows
  std::map<int, Var> hidden_states;
  KeptMaps maps, cross_maps;
};

bool contains(const std::vector<int>& list, int value);

// Throws InputError for an index outside a stack of `layers` layers.
void check_wanted(const Wanted& wanted, int layers);

// Returns the maps of layer i that are used; `taken`: the next reads its carry.
AttentionWanted maps_wanted(const Wanted& wanted, int i, bool taken);

// Store the requested outputs of layer i in `out`; `cross` is undefined where
// there is no cross attention.
void keep_maps(KeptMaps& out, const Wanted& wanted, int i,
               const AttentionOutput& attention);
void keep(StackOutput& out, const Wanted& wanted, int i, const Var& hidden,
          const AttentionOutput& attention, const AttentionOutput& cross);

// Keeps a module in training mode while this object exists: the user may have
// switched to evaluation between the forward pass and the backward pass that
// recomputes a layer.
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

}  // namespace ea
