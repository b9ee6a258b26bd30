// The only attention layer: project, score, bias, evolve, normalise, mix.
#pragma once

#include <functional>
#include <optional>

#include "nn/attention/cache.h"
#include "nn/attention/spec.h"
#include "nn/layers.h"

namespace ea {

// The names of the projections in checkpoints.
struct ProjectionNames {
  const char *query = "query", *key = "key", *value = "value";
};

struct AttentionConfig {
  // Self-attention over tokens of this width, with heads of one width.
  static AttentionConfig of(std::int64_t width, std::int64_t heads,
                            std::int64_t head_width) {
    return {.query_size = width,
            .memory_size = width,
            .heads = heads,
            .head_key_width = head_width,
            .head_value_width = head_width};
  }

  std::int64_t query_size = 0;   // width of the query tokens
  std::int64_t memory_size = 0;  // width of the memory tokens (keys, values)
  std::int64_t heads = 0;
  std::int64_t head_key_width = 0;    // of queries and keys
  std::int64_t head_value_width = 0;  // of values
  double dropout = 0.0;               // rate for the probabilities
  double carry_dropout = 0.0;         // rate for carried maps: AttentionContext
  bool biased = true;                 // whether projections have biases
  // Whether queries, keys and values are projected. Without projections,
  // forward() uses the given tokens as all three.
  bool projects = true;
  AffineInit init = {};
  std::optional<AffineInit> query_init = {};  // default: init
  ProjectionNames names = {};
  DType dtype = DType::f32;
  int layer = 0;       // in its chain
  int num_layers = 1;  // length of the chain
  StackPlace place = {};

  // Sets the places of layer i of a stack of place.count layers, and returns
  // its spec. Throws ConfigError unless there is one spec, or one for each.
  const AttentionSpec& enter(const AttentionSpecs& specs, int i);
  std::int64_t key_size() const { return heads * head_key_width; }
  std::int64_t value_size() const { return heads * head_value_width; }
};

// Maps carried to the next layer of a chain, with their layout.
struct Carry {
  Var maps;  // undefined: the chain restarts
  PackingPtr packing;
  int depth = -1;  // number of maps since the chain's start, less this one
  Var table = {};  // see Bias::table()
  Var shared_bias = {};                 // the last map of Bias::shared()
  PackingPtr shared_packing = nullptr;  // its layout

  Carry without_maps() const {
    Carry rest = *this;
    rest.maps = rest.shared_bias = Var();
    return rest;
  }
};

struct AttentionOutput {
  Var context;        // [query tokens, heads * head_value_width]
  Carry carry;        // for the next layer
  Var probabilities;  // after softmax, before dropout
  Var scores;         // S with the bias, before the evolving step
};

// Which maps the caller will use; the others may be left undefined.
struct AttentionWanted {
  bool carry = true;
  bool probabilities = true;
  bool scores = false;
  // Whether callers may retain the gradients of these maps. If so, fused
  // attention computes them in backward too.
  bool gradients = false;
};

// Attention of `queries` over `memory` (the same tokens in self-attention),
// without the output projection, which belongs to the block in BERT. Parameter
// names come from the config and the slots.
class Attention : public Module {
 public:
  Attention(const AttentionConfig& config, const AttentionSpec& spec);

  // If the carry has a different number of heads or maps of a different shape,
  // the chain restarts here. Sequence i of `queries` attends to sequence i of
  // `memory`. Throws ShapeError.
  AttentionOutput forward(const Tokens& queries, const Tokens& memory,
                          const Carry& previous, const AttentionWanted& wanted);
  bool takes_previous() const { return slots_.evolve->takes_previous(); }
  bool causal() const { return slots_.scope->causal(); }
  bool reads_later_queries() const {
    return slots_.evolve->reads_later_queries();
  }

  // For token-by-token decoding: the number of earlier rows of the scores and
  // of the carried map that a new row of the map depends on. None if it may
  // depend on all rows; then there are no caches.
  std::optional<std::int64_t> reach_back() const;
  // Whether ops/cached_attention.h can compute a step. The answer holds until a
  // parameter or a fast path changes.
  bool steps_by_number() const;
  // Returns the cache for cross-attention over `memory`. A self-attention cache
  // starts empty.
  AttentionCache over(const Tokens& memory, const CachePlan& plan) const;
  // Computes forward() for one more token of every sequence, [sequences,
  // query_size]. With plan.by_number, the only map is the new row of the carry.
  // Otherwise the maps have the rows of plan.earlier tokens and of the new one,
  // and only rows that depend on no other rows are correct. The last row is
  // correct if plan.earlier is the sum of reach_back() over all layers that
  // carry maps. All layers that carry maps must use the same form of step.
  AttentionOutput step(const Var& rows, AttentionCache& cache,
                       const Carry& previous, const AttentionWanted& wanted);

 private:
  using Made = std::function<Var()>;
  // Computes everything after the projection of queries.
  AttentionOutput attend(const Var& q, const Made& key, const Made& value,
                         const PackingPtr& tokens, const Carry& previous,
                         const AttentionWanted& wanted);
  AttentionOutput step_by_number(const Tensor& query, AttentionCache& cache,
                                 const Carry& previous, bool carry) const;
  // Returns the carry before this layer's step, in its layout: without maps
  // where the chain restarts.
  static Carry carried(const Carry& previous, const PackingPtr& maps);
  // Adds the shared bias to the carry and the context.
  void share_bias(Carry& next, AttentionContext& context) const;
  // Whether the scores or the bias depend on the queries.
  bool reads_queries() const;
  // Returns the map that the bias slot adds; the slot must not be empty.
  Var bias_map(const Var& q, const AttentionContext& context) const;
  // Returns S with the bias.
  Var scored(const Var& q, const Var& k, const AttentionContext& context) const;
  AttentionOutput fused(const Var& q, const Var& k, const Var& v,
                        const Var& previous, Carry next,
                        const AttentionContext& context, double scale,
                        const ClosedFormView& form,
                        const AttentionWanted& wanted) const;

  AttentionConfig config_;
  std::optional<Linear> query_, key_, value_;
  Slots slots_;
  Dropout dropout_;
};

}  // namespace ea
