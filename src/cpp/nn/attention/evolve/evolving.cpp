// Evolving Attention (Wang et al., ICML 2021, Eq. 4): from the second layer on
//   I = alpha M + (1 - alpha) S,  L = beta ReLU(Conv(I)) + (1 - beta) I.
// alpha and beta are numbers, or learned as the sigmoid of a parameter.
#include <string>

#include "nn/attention/evolve/closed_form.h"
#include "nn/attention/evolve/evolving_options.h"

namespace ea {

namespace {

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
    [](const Options& options, const SlotSite& site) {
      const bool identity = options.text("conv_init") == "identity";
      return make_evolving(
          {.kind = "evolving",
           .alpha = of_layer(options, "alpha", site),
           .beta = of_layer(options, "beta", site),
           .kernel = {options.integer("kernel_size"),
                      {identity ? Init::Kind::identity_conv
                                : Init::Kind::truncated_fan_in}},
           .plain = site.layer == 0},
          options.flag("learnable"), site);
    },
});

}  // namespace

}  // namespace ea
