// Concatenative scores (Velickovic et al., 2018, Eq. 3; A_c of Eq. 11 of
// "Convolution-enhanced Evolving Attention Networks"):
// S_ij = LeakyReLU(a . [q_i; k_j]) = LeakyReLU(a_q . q_i + a_k . k_j).
#include <cmath>

#include "nn/attention/registry.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/reduce.h"
#include "ops/shape_ops.h"

namespace ea {

namespace {

// a [2, heads, d]: the halves for queries and for keys.
class ConcatenativeScore final : public Score {
 public:
  ConcatenativeScore(double slope, const SlotSite& site)
      : slope_(slope),
        heads_(site.heads),
        width_(site.head_key_width),
        weight_(add_parameter("score.weight", {2, heads_, width_}, site.dtype,
                              Init::normal(1.0 / std::sqrt(width_)))) {}

  Var scores(const Var& q, const Var& k, const Scope& scope,
             const AttentionContext& context) const override {
    const Var pairs = scope.pair_sum(part(q, 0), part(k, 1), context);
    return activation(pairs, Activation::leaky_relu, slope_);
  }
  bool sums_pairs() const override { return true; }

 private:
  // Returns a_half . x for each token and head, [tokens, heads].
  Var part(const Var& x, std::int64_t half) const {
    const Var rows = reshape(x, {x.dim(0), heads_, width_});
    return sum(mul(rows, slice(weight_, 0, half, half + 1)), 2);
  }

  double slope_;
  std::int64_t heads_, width_;
  Var weight_;
};

const Register<Score> kConcatenative({
    "concatenative",
    "Velickovic et al., ICLR 2018, Eq. 3; Wang et al., TPAMI 2023, Eq. 11 "
    "(A_c)",
    {
        {.name = "negative_slope",
         .type = "float",
         .fallback = 0.2,
         .high = 1,
         .doc = "the slope of LeakyReLU for negative sums, from 0 to 1"},
    },
    [](const Options& options, const SlotSite& site) {
      return std::make_unique<ConcatenativeScore>(
          options.number("negative_slope"), site);
    },
});

}  // namespace

}  // namespace ea
