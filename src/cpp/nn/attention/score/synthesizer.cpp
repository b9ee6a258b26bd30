// Synthesizer (Tay et al., 2020): scores depend on positions, not on products
// of queries and keys.
// Dense: S_ij = (W_2 ReLU(W_1 x_i + b_1) + b_2)_j. Random: S_ij = R_ij.
// Mixed with the dot product: m_1 S_ij + m_2 q_i . k_j / sqrt(d).
#include <algorithm>
#include <cmath>

#include "nn/attention/registry.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/gather.h"
#include "ops/shape_ops.h"
#include "ops/softmax.h"
#include "ops/unpack_maps.h"

namespace ea {

namespace {

// Base of both kinds: positions up to max_length, and the mixture.
class Synthesizer : public Score {
 public:
  Synthesizer(const Options& options, const SlotSite& site)
      : max_length_(options.integer("max_length")),
        heads_(site.heads),
        width_(site.head_key_width) {
    if (!options.flag("dot")) return;
    mixture_ = add_parameter("score.mixture", {2}, site.dtype, {});
  }

  Var scores(const Var& q, const Var& k, const Scope& scope,
             const AttentionContext& context) const final {
    const Packing& tokens = *context.tokens;
    const std::int64_t longest =
        std::max(tokens.longest_query(), tokens.longest_key());
    EA_CHECK(longest <= max_length_, "attention",
             "a sequence has {} tokens, expected at most the {} positions of "
             "the synthesizer; shorten the text, or set max_length = {}",
             longest, max_length_, longest);
    const Var made = synthesized(q, scope, context);
    if (!mixture_.defined()) return made;
    const Var dot =
        scope.dot(q, k, 1.0 / std::sqrt(static_cast<double>(width_)), context);
    const Var shares = softmax(mixture_);
    return add(mul(made, slice(shares, 0, 0, 1)),
               mul(dot, slice(shares, 0, 1, 2)));
  }
  bool reads_keys() const final { return mixture_.defined(); }
  bool pairwise() const final { return false; }

 protected:
  virtual Var synthesized(const Var& q, const Scope& scope,
                          const AttentionContext& context) const = 0;
  bool mixed() const { return mixture_.defined(); }

  std::int64_t max_length_, heads_, width_;

 private:
  Var mixture_;  // logits of m_1 and m_2; start at 0, so both are 1/2
};

// The layer's own projection of queries is W_1 and b_1. In every scope, a score
// is the product of [ReLU(q_i); 1] and [w_j; b_j].
class DenseSynthesizer final : public Synthesizer {
 public:
  DenseSynthesizer(const Options& options, const SlotSite& site)
      : Synthesizer(options, site),
        weight_(add_parameter("score.weight", {max_length_, heads_, width_},
                              site.dtype,
                              Init::normal(1.0 / std::sqrt(width_)))),
        bias_(add_parameter("score.bias", {max_length_, heads_, 1}, site.dtype,
                            {})) {}

 protected:
  Var synthesized(const Var& q, const Scope& scope,
                  const AttentionContext& context) const override {
    const Packing& tokens = *context.tokens;
    const std::int64_t row = heads_ * (width_ + 1);
    const std::int64_t keys = std::max<std::int64_t>(1, tokens.longest_key());
    const Var hidden =
        activation(reshape(q, {q.dim(0), heads_, width_}), Activation::relu);
    const Var one(full({q.dim(0), heads_, 1}, q.dtype(), 1.0, q.device()));
    const Var table =
        concat({slice(weight_, 0, 0, keys), slice(bias_, 0, 0, keys)}, 2);
    return scope.dot(reshape(concat({hidden, one}, 2), {q.dim(0), row}),
                     gather_rows(reshape(table, {keys, row}),
                                 from_values(positions_of(tokens.k_offsets()))),
                     1.0, context);
  }

 private:
  Var weight_, bias_;
};

// R [heads, queries, keys].
class RandomSynthesizer final : public Synthesizer {
 public:
  RandomSynthesizer(const Options& options, const SlotSite& site)
      : Synthesizer(options, site),
        table_(add_parameter(
            "score.weight", {heads_, max_length_, max_length_}, site.dtype,
            Init::normal(1.0 / std::sqrt(static_cast<double>(width_))))) {}

  bool reads_queries() const override { return mixed(); }

 protected:
  Var synthesized(const Var& /*q*/, const Scope& scope,
                  const AttentionContext& context) const override {
    const Packing& tokens = *context.tokens;
    const std::int64_t n = std::max<std::int64_t>(1, tokens.longest_query());
    const std::int64_t m = std::max<std::int64_t>(1, tokens.longest_key());
    const Var used = slice(slice(table_, 1, 0, n), 2, 0, m);
    if (scope.dense()) {
      const Var each(
          zeros({tokens.sequences(), 1, 1, 1}, used.dtype(), used.device()));
      return pack_maps(add(each, reshape(used, {1, heads_, n, m})),
                       context.maps);
    }
    // The product of a row of R with a unit vector is one cell of the row.
    Tensor unit = zeros({m, heads_, m}, DType::f32);
    for (std::int64_t j = 0; j < m * heads_; ++j) {
      unit.data<float>()[j * m + j / heads_] = 1.0F;
    }
    const Var units(to_device(cast(unit, used.dtype()), used.device()));
    return scope.dot(
        gather_rows(reshape(transpose(used, 0, 1), {n, heads_ * m}),
                    from_values(positions_of(tokens.q_offsets()))),
        gather_rows(reshape(units, {m, heads_ * m}),
                    from_values(positions_of(tokens.k_offsets()))),
        1.0, context);
  }

 private:
  Var table_;
};

std::vector<OptionSpec> option_specs() {
  return {
      {.name = "max_length",
       .type = "int",
       .fallback = 512,
       .low = 1,
       .high = 1 << 16,
       .doc = "the number of positions: tokens of the longest sequence"},
      {.name = "dot",
       .type = "bool",
       .fallback = false,
       .doc = "whether the scores are mixed with those of the dot product"},
  };
}

const char* const kPaper = "Tay et al., Synthesizer, 2020";

const Register<Score> kDenseSynthesizer({
    "dense_synthesizer",
    kPaper,
    option_specs(),
    [](const Options& options, const SlotSite& site) {
      return std::make_unique<DenseSynthesizer>(options, site);
    },
});

const Register<Score> kRandomSynthesizer({
    "random_synthesizer",
    kPaper,
    option_specs(),
    [](const Options& options, const SlotSite& site) {
      return std::make_unique<RandomSynthesizer>(options, site);
    },
});

}  // namespace

}  // namespace ea
