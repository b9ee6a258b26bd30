// The specification of an attention layer: one kind for each slot.
#pragma once

#include <vector>

#include "nn/attention/registry.h"

namespace ea {

// Makers of the four slots; an empty bias maker, or one that returns null,
// leaves that slot empty. The defaults are those of Vaswani et al.: dot, dense,
// no bias, vanilla.
struct AttentionSpec {
  AttentionSpec();

  SlotMaker<Score> score;
  SlotMaker<Scope> scope;
  SlotMaker<Bias> bias;
  SlotMaker<Evolve> evolve;
};

// One spec for all layers, or one for each.
using AttentionSpecs = std::vector<AttentionSpec>;

// Returns a layer's index in its chain, and the chain's length: a chain ends
// where the next layer's scope lays out its maps differently. There is one
// spec, or one for each layer.
StackPlace place_in_chain(const AttentionSpecs& specs, const StackPlace& layer);

// Throws ConfigError unless there is one spec, or one for each layer.
const AttentionSpec& spec_of_layer(const AttentionSpecs& specs, int layer,
                                   int num_layers);

struct Slots {
  std::unique_ptr<Score> score;
  std::unique_ptr<Scope> scope;
  std::unique_ptr<Bias> bias;  // may be null
  std::unique_ptr<Evolve> evolve;
};

// The slots of one layer. Throws ConfigError if they cannot be combined.
Slots make_slots(const AttentionSpec& spec, const SlotSite& site);

}  // namespace ea
