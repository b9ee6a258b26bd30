// Dense attention in one op: scores, evolving step, softmax, dropout, context.
#pragma once

#include "autograd/var.h"
#include "ops/dropout.h"
#include "ops/evolve.h"
#include "ops/fused_maps.h"
#include "ops/packing.h"

namespace ea {

struct FusedAttentionOutput {
  Var context;  // [total queries, heads e], as v
  Var carry;    // flat maps L; undefined unless asked for
};

struct FusedAttentionSettings {
  EvolveCoefficients c;
  double scale = 1.0;          // of the scores
  double softmax_scale = 1.0;  // the softmax takes softmax_scale L
  DropoutSite dropout = {};    // of the probabilities
  bool carry = true;           // whether L is an output
  MapShift shift = {};         // of the convolution
  Var score_bias = {};         // flat maps added to the scores, or undefined
  std::shared_ptr<const FusedMaps> maps = {};  // to fill in backward, or null
};

// attention_scores, add, evolve, map_softmax, dropout and attention_context
// without their maps: previous, weight and bias as for evolve(), and the same
// cells are dropped as by dropout() in their place.
FusedAttentionOutput fused_attention(const Var& q, const Var& k, const Var& v,
                                     const Var& previous, const Var& weight,
                                     const Var& bias, const PackingPtr& packing,
                                     const FusedAttentionSettings& settings);

}  // namespace ea
