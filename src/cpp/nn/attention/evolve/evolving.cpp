// Evolving Attention (Wang et al., ICML 2021, Eq. 4): from the second layer on
//   I = alpha M + (1 - alpha) S,  L = beta ReLU(Conv(I)) + (1 - beta) I.
#include "nn/attention/evolve/closed_form.h"

namespace ea {

namespace {

std::unique_ptr<Evolve> make(const Options& options, const EvolveSite& site) {
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

const RegisterEvolve kEvolving({
    "evolving",
    "Wang et al., ICML 2021, Eq. 4",
    {
        {"alpha",
         "float",
         {},
         0,
         1,
         {},
         false,
         "the weight of the previous layer's map (skip), from 0 to 1"},
        {"beta",
         "float",
         {},
         0,
         1,
         {},
         false,
         "the weight of the convolution, from 0 to 1"},
        {"kernel_size",
         "int",
         Options::Value(std::int64_t{3}),
         1,
         15,
         {},
         true,
         "the side of the convolution's square kernel, odd, from 1 to 15"},
        {"conv_init",
         "str",
         Options::Value(std::string("fan_in")),
         0,
         0,
         {"fan_in", "identity"},
         false,
         "how new convolutions start"},
    },
    make,
});

}  // namespace

}  // namespace ea
