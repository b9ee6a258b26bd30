// Evolving Attention of a decoder (Wang et al., ICML 2021, Section 3.5 and
// Fig. 3): the convolution is shifted so that no later target token is read.
#include <string>

#include "nn/attention/evolve/closed_form.h"
#include "nn/attention/evolve/evolving_options.h"

namespace ea {

namespace {

// Returns 1 where the column is not right of the row (six of 3 x 3), else 0.
// For the cell of a query's own key, the other taps would read cells above the
// diagonal, which do not exist.
Tensor causal_taps(std::int64_t side, DType dtype) {
  const Tensor taps = zeros({1, 1, side, side}, DType::f64);
  for (std::int64_t row = 0; row < side; ++row) {
    for (std::int64_t column = 0; column <= row; ++column) {
      taps.data<double>()[row * side + column] = 1.0;
    }
  }
  return cast(taps, dtype);
}

// The shift leaves rows and columns of the convolved map empty; they are 0.
EvolveKernel causal_kernel(std::int64_t side, const std::string& kind,
                           DType dtype) {
  EvolveKernel kernel{side, {Init::Kind::truncated_fan_in}};
  const std::int64_t reach = (side - 1) / 2;
  if (kind != "key_literal") kernel.shift.down = reach;
  if (kind != "query") kernel.shift.right = reach;
  if (kind == "diagonal") kernel.taps = causal_taps(side, dtype);
  return kernel;
}

// With alpha = 0, a step needs no previous map, so the first layer has its
// convolution too.
std::unique_ptr<Evolve> make_evolving_causal(const Options& options,
                                             const SlotSite& site) {
  const double alpha = of_layer(options, "alpha", site);
  return make_evolving(
      {.kind = "evolving_causal",
       .alpha = alpha,
       .beta = of_layer(options, "beta", site),
       .kernel = causal_kernel(options.integer("kernel_size"),
                               options.text("shift"), site.dtype),
       .plain = site.layer == 0 && alpha != 0.0},
      options.flag("learnable"), site);
}

// alpha and beta have no defaults: the paper's decoders have no skip, others
// do.
std::vector<OptionSpec> options_of_causal() {
  std::vector<OptionSpec> all = evolving_options();
  for (OptionSpec& option : all) {
    if (option.per_layer) option.fallback.reset();
  }
  all.push_back({.name = "shift",
                 .type = "str",
                 .fallback = std::string("diagonal"),
                 .choices = {"diagonal", "query", "key_literal"},
                 .doc =
                     "Shift that keeps the convolution causal: diagonal "
                     "(self-attention) or query (cross-attention). key_literal "
                     "follows the paper's text and leaks later target tokens"});
  all.push_back(learnable_option());
  return all;
}

const Register<Evolve> kEvolvingCausal({
    "evolving_causal",
    "Wang et al., ICML 2021, Section 3.5",
    options_of_causal(),
    make_evolving_causal,
});

}  // namespace

}  // namespace ea
