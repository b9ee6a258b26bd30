// Evolving Attention (Wang et al., ICML 2021, Eq. 4): from the second layer on
//   I = alpha M + (1 - alpha) S,  L = beta ReLU(Conv(I)) + (1 - beta) I.
// alpha and beta are numbers, or learned as the sigmoid of a parameter.
#include <string>

#include "nn/attention/evolve/closed_form.h"
#include "nn/attention/evolve/evolving_options.h"
#include "nn/attention/evolve/learned_evolving.h"

namespace ea {

namespace {

std::unique_ptr<Evolve> make_evolving(const Options& options,
                                      const SlotSite& site) {
  const double alpha = of_layer(options, "alpha", site);
  const double beta = of_layer(options, "beta", site);
  Init init;
  init.kind = options.text("conv_init") == "identity"
                  ? Init::Kind::identity_conv
                  : Init::Kind::truncated_fan_in;
  if (options.flag("learnable")) {
    LearnedEvolvingConfig config{"evolving", alpha, beta};
    config.kernel_size = options.integer("kernel_size");
    config.init = init;
    config.plain = site.layer == 0;
    return std::make_unique<LearnedEvolving>(config, site);
  }
  const EvolveCoefficients c{alpha, 1 - alpha, alpha * (1 - beta),
                             (1 - alpha) * (1 - beta), beta};
  return std::make_unique<ClosedForm>(c, 1.0, options.integer("kernel_size"),
                                      init, site);
}

std::vector<OptionSpec> options_of_evolving() {
  std::vector<OptionSpec> all = evolving_options();
  all.push_back({.name = "conv_init",
                 .type = "str",
                 .fallback = std::string("fan_in"),
                 .choices = {"fan_in", "identity"},
                 .doc = "how new convolutions start"});
  all.push_back(learnable_option());
  return all;
}

const Register<Evolve> kEvolving({
    "evolving",
    "Wang et al., ICML 2021, Eq. 4",
    options_of_evolving(),
    make_evolving,
});

}  // namespace

}  // namespace ea
