// Vanilla attention (Vaswani et al., 2017): maps of layers are independent.
#include "nn/attention/evolve/closed_form.h"

namespace ea {

namespace {

const Register<Evolve> kVanilla({
    "vanilla",
    "Vaswani et al., NeurIPS 2017",
    {},
    [](const Options&, const SlotSite& site) {
      return std::make_unique<ClosedForm>(kVanillaStep, EvolveKernel{}, site,
                                          true);
    },
});

}  // namespace

}  // namespace ea
