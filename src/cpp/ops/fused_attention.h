// Dense attention as one op: scores, evolving step, softmax, dropout, context.
#pragma once

#include "autograd/var.h"
#include "ops/dropout.h"
#include "ops/evolve.h"
#include "ops/fused_maps.h"
#include "ops/packing.h"

namespace ea {

struct FusedAttentionOutput {
  Var context;  // [total queries, heads e], as v
  Var carry;    // flat maps L; undefined unless requested
};

struct FusedAttentionSettings {
  EvolveCoefficients c;
  double scale = 1.0;          // factor of the scores
  double softmax_scale = 1.0;  // the softmax takes softmax_scale L
  DropoutSite dropout = {};    // on the probabilities
  bool carry = true;           // whether to return L
  MapShift shift = {};         // of the convolution's result
  Var score_bias = {};         // flat maps added to the scores, or undefined
  std::shared_ptr<const FusedMaps> maps = {};  // filled in backward, or null
};

// Computes attention_scores, add, evolve, map_softmax, dropout and
// attention_context without storing their maps. previous, weight and bias are
// as for evolve(). Drops the same cells as dropout() would at that point.
FusedAttentionOutput fused_attention(const Var& q, const Var& k, const Var& v,
                                     const Var& previous, const Var& weight,
                                     const Var& bias, const PackingPtr& packing,
                                     const FusedAttentionSettings& settings);

}  // namespace ea
