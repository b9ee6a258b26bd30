// One value that says what an attention layer is: a kind for each slot.
#pragma once

#include <vector>

#include "nn/attention/registry.h"

namespace ea {

// Makers of the four slots; an empty bias maker, or one that returns null,
// leaves that slot empty. What is not named is Vaswani et al.'s: dot, dense,
// none, vanilla.
struct AttentionSpec {
  AttentionSpec();

  SlotMaker<Score> score;
  SlotMaker<Scope> scope;
  SlotMaker<Bias> bias;
  SlotMaker<Evolve> evolve;
};

// One spec for all layers, or one for each.
using AttentionSpecs = std::vector<AttentionSpec>;

// Throws ConfigError unless there is one spec, or one for each layer.
const AttentionSpec& spec_of_layer(const AttentionSpecs& specs, int layer,
                                   int num_layers);

struct Slots {
  std::unique_ptr<Score> score;
  std::unique_ptr<Scope> scope;
  std::unique_ptr<Bias> bias;  // may be null
  std::unique_ptr<Evolve> evolve;
};

// The slots of one layer. Throws ConfigError where they cannot stand together.
Slots make_slots(const AttentionSpec& spec, const SlotSite& site);

}  // namespace ea
