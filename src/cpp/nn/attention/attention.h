// The only attention layer: project, score, bias, evolve, softmax, mix.
#pragma once

#include <memory>

#include "nn/attention/registry.h"
#include "nn/attention/slots.h"
#include "nn/layers.h"

namespace ea {

// Makes the evolve slot of one layer; the caller decides from what.
using EvolveMaker = std::function<std::unique_ptr<Evolve>(const EvolveSite&)>;

struct AttentionConfig {
  std::int64_t hidden_size = 0;  // of the input
  std::int64_t inner_size = 0;   // of all heads together, in and out
  std::int64_t heads = 0;
  double dropout = 0.0;        // of the probabilities
  double carry_dropout = 0.0;  // of carried maps: see AttentionContext
  AffineInit init;
  DType dtype = DType::f32;
  int layer = 0;
  int num_layers = 1;
};

struct AttentionOutput {
  Var context;        // [tokens, inner]
  Var carry;          // maps for the next layer
  Var probabilities;  // after softmax, before dropout
};

// Which maps the caller will use; what it will not may be left undefined.
struct AttentionWanted {
  bool carry = true;
  bool probabilities = true;
};

// Self-attention over packed sequences, without the output projection (which
// BERT counts to the block). Parameter names are Hugging Face's: query, key,
// value; the evolve slot's own stand beside them.
class Attention : public Module {
 public:
  // `bias` may be null: nothing is added to the scores.
  Attention(const AttentionConfig& config, std::unique_ptr<Scope> scope,
            std::unique_ptr<Bias> bias, std::unique_ptr<Evolve> evolve);

  AttentionOutput forward(const Var& x, const Var& previous,
                          const PackingPtr& packing,
                          const AttentionWanted& wanted);
  bool takes_previous() const { return evolve_->takes_previous(); }

 private:
  AttentionConfig config_;
  Linear query_, key_, value_;
  std::unique_ptr<Scope> scope_;
  std::unique_ptr<Bias> bias_;
  std::unique_ptr<Evolve> evolve_;
};

}  // namespace ea
