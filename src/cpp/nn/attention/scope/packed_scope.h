// Base of the scopes whose packing defines which cells exist; map operations
// read the cells from it.
#pragma once

#include "nn/attention/slots.h"
#include "ops/attention.h"
#include "ops/softmax.h"

namespace ea {

class PackedScope : public Scope {
 public:
  Var dot(const Var& q, const Var& k, double scale,
          const AttentionContext& context) const override {
    return attention_scores(q, k, context.maps, scale);
  }
  Var normalise(const Var& logits, double scale,
                const AttentionContext& context) const override {
    return map_softmax(logits, context.maps, scale);
  }
  Var mix(const Var& probabilities, const Var& v,
          const AttentionContext& context) const override {
    return attention_context(probabilities, v, context.maps);
  }
};

}  // namespace ea
