// RealFormer (He et al., 2021): L_i = L_{i-1} + S_i. The sum is carried; the
// running mean divides only the softmax's input.
#include "nn/attention/evolve/closed_form.h"

namespace ea {

namespace {

// The paper uses the running mean for models deeper than 24 layers.
constexpr int kDeep = 24;

std::unique_ptr<Evolve> make_residual(const Options& options,
                                      const SlotSite& site) {
  const bool mean = options.flag("running_mean", site.num_layers > kDeep);
  const double scale = mean ? 1.0 / (site.layer + 1) : 1.0;
  return std::make_unique<ClosedForm>(EvolveCoefficients{0, 0, 1, 1, 0},
                                      EvolveKernel{}, site, site.layer == 0,
                                      scale);
}

const Register<Evolve> kResidual({
    "residual",
    "He et al., RealFormer, Findings of ACL 2021",
    {
        {.name = "running_mean",
         .type = "bool?",
         .doc = "whether layer l divides the summed logits by l + 1 before the "
                "softmax (default: only in models deeper than 24 layers)"},
    },
    make_residual,
});

}  // namespace

}  // namespace ea
