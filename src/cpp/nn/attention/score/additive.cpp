// Additive scores (Eq. 11 of "Convolution-enhanced Evolving Attention
// Networks", Bahdanau et al., 2015): S_ij = w . tanh(k_j + q_i).
#include <cmath>

#include "nn/attention/registry.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/reduce.h"
#include "ops/shape_ops.h"

namespace ea {

namespace {

// The layer's own projections are the W_3 and W_4 of Eq. 11; w [heads, d].
class AdditiveScore final : public Score {
 public:
  explicit AdditiveScore(const SlotSite& site)
      : heads_(site.heads),
        width_(site.head_key_width),
        weight_(add_parameter("score.weight", {heads_, width_}, site.dtype,
                              Init::normal(1.0 / std::sqrt(width_)))) {}

  Var scores(const Var& q, const Var& k, const Scope& scope,
             const AttentionContext& context) const override {
    const Var hidden =
        activation(scope.pair_sum(q, k, context), Activation::tanh);
    // w for each cell, by head: the pair sum of w at every query and 0 at every
    // key.
    const Var none(zeros({k.dim(0), 1}, k.dtype(), k.device()));
    const Var each(zeros({q.dim(0), 1}, q.dtype(), q.device()));
    const Var flat = reshape(weight_, {1, heads_ * width_});
    const Var weights =
        scope.pair_sum(add(each, flat), mul(none, flat), context);
    const std::int64_t cells = hidden.numel() / width_;
    return sum(reshape(mul(hidden, weights), {cells, width_}), 1);
  }
  bool sums_pairs() const override { return true; }

 private:
  std::int64_t heads_, width_;
  Var weight_;
};

const Register<Score> kAdditive({
    "additive",
    "Wang et al., TPAMI 2023, Eq. 11 (A_a)",
    {},
    [](const Options&, const SlotSite& site) {
      return std::make_unique<AdditiveScore>(site);
    },
});

}  // namespace

}  // namespace ea
