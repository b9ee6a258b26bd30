// The slots of the attention layer: everything a variant can change.
#pragma once

#include <memory>
#include <optional>

#include "autograd/var.h"
#include "nn/module.h"
#include "ops/evolve.h"
#include "ops/packing.h"

namespace ea {

// What a slot may know of where it stands.
struct AttentionContext {
  int layer = 0;               // 0-based index in its chain
  int num_layers = 1;          // length of the chain
  PackingPtr packing;          // heads, sequences, places of the maps
  double carry_dropout = 0.0;  // in training, for kinds that have such
};

// Where attention looks: logits from queries and keys, and context from
// probabilities and values. It owns both, because a window or a graph changes
// where the values come from and not only a mask.
class Scope {
 public:
  virtual ~Scope() = default;
  // Flat maps S = scale q k^T, finite everywhere; q, k [tokens, heads d]
  virtual Var score(const Var& q, const Var& k, double scale,
                    const AttentionContext& context) const = 0;
  // [tokens, heads d] from probabilities and values
  virtual Var mix(const Var& probabilities, const Var& v,
                  const AttentionContext& context) const = 0;
  // Whether these two are attention_scores() and attention_context().
  virtual bool dense() const { return false; }
};

// What is added to the scores before they evolve (relative positions, buckets),
// so that it is mixed, convolved and carried with them. BERT and RoBERTa have
// none: their slot is empty.
class Bias : public Module {
 public:
  // logits: flat maps; q [tokens, heads d]
  virtual Var add(const Var& logits, const Var& q,
                  const AttentionContext& context) const = 0;
};

// What the softmax sees, and what the next layer receives: not always the same.
struct Evolved {
  Var logits;
  Var carry;
  double scale = 1.0;  // the softmax takes scale * logits
};

// A step that is L = p M + s S + w ReLU(Conv(a M + b S)), carried as it is,
// with a softmax over softmax_scale L.
struct ClosedFormView {
  EvolveCoefficients c;
  double softmax_scale = 1.0;
  Var weight, bias;  // undefined where w = 0
};

// How the maps of the previous layer change those of this one.
class Evolve : public Module {
 public:
  // `previous` is undefined in the first layer of a chain.
  virtual Evolved step(const Var& scores, const Var& previous,
                       const AttentionContext& context) = 0;
  // The same step as numbers, for kernels that fuse it, if it has that form.
  virtual std::optional<ClosedFormView> closed_form() const { return {}; }
  // Whether step() makes use of the previous layer's maps.
  bool takes_previous() const {
    const auto form = closed_form();
    return !form || form->c.a != 0.0 || form->c.p != 0.0;
  }
};

std::unique_ptr<Scope> make_dense_scope();

}  // namespace ea
