// The slots of the attention layer: everything that a variant can change.
#pragma once

#include <memory>
#include <optional>

#include "autograd/var.h"
#include "nn/module.h"
#include "ops/evolve.h"
#include "ops/packing.h"

namespace ea {

// Rows of packed sequences, [total, width], and the offsets of the sequences.
struct Tokens {
  Var rows;
  PackingPtr packing;
};

// A layer's index among all attention layers of its stack, and their number. A
// stack with maps of several sizes or layouts has several chains.
struct StackPlace {
  int index = 0, count = 0;  // count 0: the stack is one chain
};

// The layer and layouts that a slot works with.
struct AttentionContext {
  int layer = 0;               // 0-based index in its chain
  int num_layers = 1;          // length of the chain
  PackingPtr tokens;           // queries and keys of each sequence
  PackingPtr maps;             // heads x rows x columns of each sequence's maps
  double carry_dropout = 0.0;  // rate in training, for kinds that use it
  int depth = 0;               // number of earlier maps since the chain's start
  Var table = {};              // see Bias::table()
  Var shared_bias = {};        // see Bias::shared()
};

// Defines which cells exist: all pairs of a sequence, those up to the diagonal,
// a window, the edges of a graph. A scope owns the products of pairs, their
// normalisation and the mixing of values, since a window or a graph needs a
// different layout and not only a mask.
class Scope : public Module {
 public:
  static constexpr const char* kSlot = "scope";

  // Layout of the maps between the queries and keys of `tokens`; a different
  // packing if rows are not queries or columns are not keys.
  virtual PackingPtr maps(const PackingPtr& tokens) const { return tokens; }
  // Whether neighbouring cells belong to neighbouring queries and keys: kernels
  // larger than 1 x 1 need this.
  virtual bool grid() const = 0;
  // Whether a query sees no key after its own position.
  virtual bool causal() const { return false; }
  // Whether the functions below are the dense ones, which kernels fuse.
  virtual bool dense() const { return false; }
  // Whether pair_sum() can be called.
  virtual bool sums_pairs() const { return true; }
  // Throws ConfigError for a layer with too few heads.
  virtual void check_heads(std::int64_t /*heads*/) const {}

  // Returns flat maps of scale q_i . k_j for each head; q, k [tokens, heads d].
  virtual Var dot(const Var& q, const Var& k, double scale,
                  const AttentionContext& context) const = 0;
  // Returns flat maps of u_i + v_j, c values per cell; u, v [tokens, heads c].
  virtual Var pair_sum(const Var& u, const Var& v,
                       const AttentionContext& context) const = 0;
  // Computes the softmax of scale L over the cells of each query and head.
  virtual Var normalise(const Var& logits, double scale,
                        const AttentionContext& context) const = 0;
  // Returns [query tokens, heads d] from probabilities and v [key tokens, heads
  // d].
  virtual Var mix(const Var& probabilities, const Var& v,
                  const AttentionContext& context) const = 0;
};

// Computes the scores of queries and keys: flat maps S over a scope's cells.
class Score : public Module {
 public:
  static constexpr const char* kSlot = "score";

  // q, k [tokens, heads d]
  virtual Var scores(const Var& q, const Var& k, const Scope& scope,
                     const AttentionContext& context) const = 0;
  // Returns the factor if S = factor * q . k, a form that kernels fuse.
  virtual std::optional<double> dot_scale() const { return {}; }
  // Whether scores() reads q, and k. A layer omits a projection that nobody
  // reads and passes an undefined Var.
  virtual bool reads_queries() const { return true; }
  virtual bool reads_keys() const { return true; }
  // Whether scores() needs the scope's pair_sum().
  virtual bool sums_pairs() const { return false; }
  // Whether a score depends only on its query and its key.
  virtual bool pairwise() const { return true; }
};

// Maps added to the scores before they evolve (relative positions, buckets), so
// that they are mixed, convolved and carried with the scores.
class Bias : public Module {
 public:
  static constexpr const char* kSlot = "bias";

  // Returns the flat maps to add; q [query tokens, heads d].
  virtual Var map(const Var& q, const AttentionContext& context) const = 0;
  // Whether all layers of a stack add the same map, which does not depend on q.
  // It is passed on to layers with the same cells.
  virtual bool shared() const { return false; }
  // The parameters of a shared map, in the first layer alone; it passes them
  // on.
  virtual Var table() const { return {}; }
  // Whether map() works for the last queries of a causal scope, with fewer
  // queries than keys: then tokens can be computed one by one.
  virtual bool knows_last_rows() const { return false; }
  // Whether mix() adds to the context, which needs the probabilities.
  virtual bool has_values() const { return false; }
  // Returns the context with the bias's values added; mixed [query tokens,
  // heads d_v].
  virtual Var mix(const Var& mixed, const Var& /*probabilities*/,
                  const AttentionContext& /*context*/) const {
    return mixed;
  }
  // Whether the bias needs a scope whose cells form a grid.
  virtual bool needs_grid() const { return true; }
};

// The input of the softmax and the carry for the next layer; these may differ.
struct Evolved {
  Var logits;
  Var carry;
  double scale = 1.0;  // the softmax takes scale * logits
};

// The step L = p M + s S + w ReLU(Conv(a M + b S)), with L as the carry and a
// softmax over L, or with `mean` over L divided by the number of summed maps.
struct ClosedFormView {
  EvolveCoefficients c = kVanillaStep;
  bool mean = false;
  Var weight = {}, bias = {};  // undefined where w = 0
  MapShift shift = {};         // shift of the convolution

  // Factor of L in the softmax, after `depth` earlier maps.
  double softmax_scale(int depth) const {
    return mean ? 1.0 / (depth + 1) : 1.0;
  }
};

// Combines the scores of this layer with the previous layer's maps.
class Evolve : public Module {
 public:
  static constexpr const char* kSlot = "evolve";

  // `previous` is undefined in the first layer of a chain.
  virtual Evolved step(const Var& scores, const Var& previous,
                       const AttentionContext& context) = 0;
  // Returns step() as coefficients for fused kernels, if it has that form.
  virtual std::optional<ClosedFormView> closed_form() const { return {}; }
  // Side of the largest kernel over queries and keys; above 1, it needs a grid.
  virtual std::int64_t kernel_size() const { return 1; }
  // Whether a cell reads cells of later queries.
  virtual bool reads_later_queries() const { return kernel_size() > 1; }
  // Number of earlier rows that a row of the result depends on, if the rest of
  // the map can be left out. None if it cannot, or if that is unknown.
  virtual std::optional<std::int64_t> reach_back() const {
    if (kernel_size() > 1 || !closed_form()) return {};
    return 0;
  }
  // Whether step() uses the previous layer's maps.
  virtual bool takes_previous() const {
    const auto form = closed_form();
    return !form || form->c.a != 0.0 || form->c.p != 0.0;
  }
};

}  // namespace ea
