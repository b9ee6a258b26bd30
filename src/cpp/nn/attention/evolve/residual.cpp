// RealFormer (He et al., 2021): L_i = L_{i-1} + S_i. The sum is carried; the
// running mean divides only the softmax's input.
#include "nn/attention/evolve/closed_form.h"

namespace ea {

namespace {

// The paper uses the running mean for models deeper than 24 layers, whatever
// the length of their chains.
constexpr int kDeep = 24;

std::unique_ptr<Evolve> make_residual(const Options& options,
                                      const SlotSite& site) {
  const bool mean = options.flag("running_mean", site.in_stack().count > kDeep);
  return std::make_unique<ClosedForm>(EvolveCoefficients{0, 0, 1, 1, 0},
                                      EvolveKernel{}, site, site.layer == 0,
                                      mean);
}

const Register<Evolve> kResidual({
    "residual",
    "He et al., RealFormer, Findings of ACL 2021",
    {
        {.name = "running_mean",
         .type = "bool?",
         .doc = "whether the softmax takes the mean of the summed logits, not "
                "the sum (default: only in models deeper than 24 layers)"},
    },
    make_residual,
});

}  // namespace

}  // namespace ea
