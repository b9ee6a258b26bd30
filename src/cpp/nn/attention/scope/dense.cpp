// Dense attention: every query sees every key of its sequence, or, with
// `causal`, those up to its own position.
#include "nn/attention/registry.h"
#include "nn/attention/scope/packed_scope.h"
#include "ops/pair_sum.h"

namespace ea {

namespace {

class DenseScope final : public PackedScope {
 public:
  explicit DenseScope(bool causal) : causal_(causal) {}

  PackingPtr maps(const PackingPtr& tokens) const override {
    return causal_ ? Packing::causal(tokens) : tokens;
  }
  bool grid() const override { return true; }
  bool causal() const override { return causal_; }
  bool dense() const override { return true; }

  Var pair_sum(const Var& u, const Var& v,
               const AttentionContext& context) const override {
    return ea::pair_sum(u, v, context.maps);
  }

 private:
  bool causal_;
};

const Register<Scope> kDense({
    "dense",
    "Vaswani et al., NeurIPS 2017",
    {
        {.name = "causal",
         .type = "bool",
         .fallback = false,
         .doc = "whether a query sees no key after its own position"},
    },
    [](const Options& options, const SlotSite&) {
      return std::make_unique<DenseScope>(options.flag("causal"));
    },
});

}  // namespace

}  // namespace ea
