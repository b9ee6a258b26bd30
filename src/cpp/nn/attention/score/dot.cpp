// Scaled dot product (Vaswani et al., 2017): S_ij = scale q_i . k_j.
#include <cmath>

#include "nn/attention/registry.h"

namespace ea {

namespace {

class DotScore final : public Score {
 public:
  explicit DotScore(double scale) : scale_(scale) {}
  Var scores(const Var& q, const Var& k, const Scope& scope,
             const AttentionContext& context) const override {
    return scope.dot(q, k, scale_, context);
  }
  std::optional<double> dot_scale() const override { return scale_; }

 private:
  double scale_;
};

const Register<Score> kDot({
    "dot",
    "Vaswani et al., NeurIPS 2017",
    {
        {.name = "scale",
         .type = "float?",
         .low = -1e6,
         .high = 1e6,
         .doc =
             "the factor of q . k (default: 1 / sqrt(width of a head); T5: 1)"},
    },
    [](const Options& options, const SlotSite& site) {
      return std::make_unique<DotScore>(options.number(
          "scale", 1.0 / std::sqrt(static_cast<double>(site.head_key_width))));
    },
});

}  // namespace

}  // namespace ea
