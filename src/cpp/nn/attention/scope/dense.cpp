// Full attention: every query sees every key of its own sequence.
#include "nn/attention/slots.h"
#include "ops/attention.h"

namespace ea {

namespace {

class DenseScope final : public Scope {
 public:
  Var score(const Var& q, const Var& k, double scale,
            const AttentionContext& context) const override {
    return attention_scores(q, k, context.packing, scale);
  }
  Var mix(const Var& probabilities, const Var& v,
          const AttentionContext& context) const override {
    return attention_context(probabilities, v, context.packing);
  }
  bool dense() const override { return true; }
};

}  // namespace

std::unique_ptr<Scope> make_dense_scope() {
  return std::make_unique<DenseScope>();
}

}  // namespace ea
