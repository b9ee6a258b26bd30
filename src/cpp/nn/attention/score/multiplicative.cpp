// Multiplicative scores (Eq. 11 of "Convolution-enhanced Evolving Attention
// Networks", Luong et al.'s general form): S_ij = q_i^T W k_j / sqrt(d).
#include <cmath>
#include <vector>

#include "autograd/grad_mode.h"
#include "nn/attention/registry.h"
#include "ops/gemm.h"
#include "ops/shape_ops.h"

namespace ea {

namespace {

// W [heads, d, d]: one matrix per head.
class MultiplicativeScore final : public Score {
 public:
  explicit MultiplicativeScore(const SlotSite& site)
      : heads_(site.heads),
        width_(site.head_key_width),
        weight_(add_parameter("score.weight", {heads_, width_, width_},
                              site.dtype,
                              Init::normal(1.0 / std::sqrt(width_)))) {}

  Var scores(const Var& q, const Var& k, const Scope& scope,
             const AttentionContext& context) const override {
    // [tokens, heads d] -> [heads, tokens, d], for one product per head
    const std::int64_t tokens = q.dim(0);
    const Var by_head = transpose(reshape(q, {tokens, heads_, width_}), 0, 1);
    const Var turned = transpose(times_weight(by_head), 0, 1);
    return scope.dot(reshape(turned, {tokens, heads_ * width_}), k,
                     1.0 / std::sqrt(static_cast<double>(width_)), context);
  }

 private:
  // Returns q W, [heads, tokens, d]. Without gradients each head is a product
  // of its own, in which a token has the same bits in any batch.
  Var times_weight(const Var& q) const {
    if (grad_enabled()) return matmul(q, weight_);
    std::vector<Var> heads;
    for (std::int64_t h = 0; h < heads_; ++h) {
      heads.push_back(
          matmul(reshape(slice(q, 0, h, h + 1), {q.dim(1), width_}),
                 reshape(slice(weight_, 0, h, h + 1), {width_, width_})));
    }
    return reshape(concat(heads, 0), q.shape());
  }

  std::int64_t heads_, width_;
  Var weight_;
};

const Register<Score> kMultiplicative({
    "multiplicative",
    "Wang et al., TPAMI 2023, Eq. 11 (A_m)",
    {},
    [](const Options&, const SlotSite& site) {
      return std::make_unique<MultiplicativeScore>(site);
    },
});

}  // namespace

}  // namespace ea
