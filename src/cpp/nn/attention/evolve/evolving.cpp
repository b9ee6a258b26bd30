// Evolving Attention (Wang et al., ICML 2021, Eq. 4): from the second layer on
//   I = alpha M + (1 - alpha) S,  L = beta ReLU(Conv(I)) + (1 - beta) I.
#include "nn/attention/evolve/closed_form.h"
#include "nn/attention/evolve/evolving_options.h"

namespace ea {

namespace {

std::unique_ptr<Evolve> make(const Options& options, const SlotSite& site) {
  const double alpha = options.number("alpha");
  const double beta = options.number("beta");
  Init init;
  init.kind = options.text("conv_init") == "identity"
                  ? Init::Kind::identity_conv
                  : Init::Kind::truncated_fan_in;
  const EvolveCoefficients c{alpha, 1 - alpha, alpha * (1 - beta),
                             (1 - alpha) * (1 - beta), beta};
  return std::make_unique<ClosedForm>(c, 1.0, options.integer("kernel_size"),
                                      init, site);
}

std::vector<OptionSpec> options() {
  std::vector<OptionSpec> all = evolving_options();
  all.push_back({"conv_init",
                 "str",
                 Options::Value(std::string("fan_in")),
                 0,
                 0,
                 {"fan_in", "identity"},
                 false,
                 "how new convolutions start"});
  return all;
}

const Register<Evolve> kEvolving({
    "evolving",
    "Wang et al., ICML 2021, Eq. 4",
    options(),
    make,
});

}  // namespace

}  // namespace ea
