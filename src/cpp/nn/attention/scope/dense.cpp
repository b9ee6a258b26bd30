// Dense attention: every query sees every key of its sequence, or, with
// `causal`, those up to its own position.
#include "nn/attention/registry.h"
#include "ops/attention.h"
#include "ops/pair_sum.h"
#include "ops/softmax.h"

namespace ea {

namespace {

class DenseScope final : public Scope {
 public:
  explicit DenseScope(bool causal) : causal_(causal) {}

  PackingPtr maps(const PackingPtr& tokens) const override {
    return causal_ ? Packing::causal(tokens) : tokens;
  }
  bool grid() const override { return true; }
  bool causal() const override { return causal_; }
  bool dense() const override { return true; }

  Var dot(const Var& q, const Var& k, double scale,
          const AttentionContext& context) const override {
    return attention_scores(q, k, context.maps, scale);
  }
  Var pair_sum(const Var& u, const Var& v,
               const AttentionContext& context) const override {
    return ea::pair_sum(u, v, context.maps);
  }
  Var normalise(const Var& logits, double scale,
                const AttentionContext& context) const override {
    return map_softmax(logits, context.maps, scale);
  }
  Var mix(const Var& probabilities, const Var& v,
          const AttentionContext& context) const override {
    return attention_context(probabilities, v, context.maps);
  }

 private:
  bool causal_;
};

const Register<Scope> kDense({
    "dense",
    "Vaswani et al., NeurIPS 2017",
    {
        {"causal",
         "bool",
         Options::Value(false),
         0,
         0,
         {},
         false,
         "whether a query sees no key behind its own place"},
    },
    [](const Options& options, const SlotSite&) {
      return std::make_unique<DenseScope>(options.flag("causal"));
    },
});

}  // namespace

}  // namespace ea
