// What the stacks of layers share: chosen outputs, the mode of a second run.
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
};

struct StackOutput {
  Var last;  // of all tokens, or of the rows that were asked for
  std::map<int, Var> hidden_states, attentions, attention_logits;
};

bool contains(const std::vector<int>& list, int value);

// Throws InputError for an index that a stack of `layers` layers has not.
void check_wanted(const Wanted& wanted, int layers);

// Which maps of layer i have a use; `taken`: the next layer reads its carry.
AttentionWanted maps_wanted(const Wanted& wanted, int i, bool taken);

// Puts what was asked for of layer i into `out`.
void keep(StackOutput& out, const Wanted& wanted, int i, const Var& hidden,
          const AttentionOutput& attention);

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

}  // namespace ea
