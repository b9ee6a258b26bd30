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
  std::int64_t query_size = 0;   // width of the query tokens
  std::int64_t memory_size = 0;  // width of the memory tokens (keys, values)
  std::int64_t heads = 0;
  std::int64_t head_key_width = 0;    // of queries and keys
  std::int64_t head_value_width = 0;  // of values
  double dropout = 0.0;               // of the probabilities
  double carry_dropout = 0.0;         // of carried maps: AttentionContext
  bool biased = true;                 // the projections
  // Whether there are projections; without them the tokens that forward() takes
  // are queries, keys and values at once.
  bool projects = true;
  AffineInit init;
  std::optional<AffineInit> query_init = {};  // default: init
  ProjectionNames names = {};
  DType dtype = DType::f32;
  int layer = 0;
  int num_layers = 1;

  std::int64_t key_size() const { return heads * head_key_width; }
  std::int64_t value_size() const { return heads * head_value_width; }
};

// For the next layer of a chain: maps with their layout.
struct Carry {
  Var maps;  // undefined: the chain starts anew
  PackingPtr packing;
  Var shared_bias = {};  // of Bias::shared(): the map of the first layer
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
  // Whether the gradients of these maps may be retained: in backward, fused
  // attention computes them beside its own.
  bool gradients = false;
};

// Attention of `queries` over `memory` (the same tokens in self-attention),
// without the output projection, which belongs to the block in BERT. Parameter
// names are the config's, and those of the slots.
class Attention : public Module {
 public:
  Attention(const AttentionConfig& config, const AttentionSpec& spec);

  // If the carry has another number of heads or maps of another shape, the
  // chain restarts here. Sequence i of `queries` attends to sequence i of
  // `memory`. Throws ShapeError.
  AttentionOutput forward(const Tokens& queries, const Tokens& memory,
                          const Carry& previous, const AttentionWanted& wanted);
  bool takes_previous() const { return slots_.evolve->takes_previous(); }
  bool causal() const { return slots_.scope->causal(); }
  bool reads_later_queries() const {
    return slots_.evolve->reads_later_queries();
  }

  // Token by token. How many earlier rows of scores, and of the carried map, a
  // new row of the map depends on; none if it may depend on all, so that there
  // are no caches.
  std::optional<std::int64_t> reach_back() const;
  // Whether a step has a form that ops/cached_attention.h computes. It has
  // while no parameter and no fast path changes.
  bool steps_by_number() const;
  // The cache of cross attention over `memory`; that of self attention starts
  // empty.
  AttentionCache over(const Tokens& memory, const CachePlan& plan) const;
  // forward() of one more token of every sequence, [sequences, query_size]. By
  // number, its only map is the new row of the carry. Else its maps are the
  // rows of plan.earlier tokens and the new one, of which those are right that
  // depend on no other rows: the last one, if the caches of all layers that
  // carry maps keep what these reach back to together. Layers that carry maps
  // step in one way.
  AttentionOutput step(const Var& rows, AttentionCache& cache,
                       const Carry& previous, const AttentionWanted& wanted);

 private:
  using Made = std::function<Var()>;
  // Everything after the projection of queries.
  AttentionOutput attend(const Var& q, const Made& key, const Made& value,
                         const PackingPtr& tokens, const Carry& previous,
                         const AttentionWanted& wanted);
  AttentionOutput step_by_number(const Tensor& query, AttentionCache& cache,
                                 const Carry& previous, bool carry) const;
  // Whether the scores or the bias depend on the queries.
  bool reads_queries() const;
  // The map that the bias slot adds, which there is.
  Var bias_map(const Var& q, const AttentionContext& context) const;
  // S with the bias.
  Var scored(const Var& q, const Var& k, const AttentionContext& context) const;
  AttentionOutput fused(const Var& q, const Var& k, const Var& v,
                        const Var& previous, const AttentionContext& context,
                        double scale, const ClosedFormView& form,
                        const AttentionWanted& wanted) const;

  AttentionConfig config_;
  std::optional<Linear> query_, key_, value_;
  Slots slots_;
  Dropout dropout_;
};

}  // namespace ea
