// Evolving Attention of a decoder (Wang et al., ICML 2021, Section 3.5 and
// Fig. 3): the convolution is shifted so that no later target token is read.
#include <string>

#include "nn/attention/evolve/closed_form.h"
#include "nn/attention/evolve/evolving_options.h"
#include "nn/attention/evolve/learned_evolving.h"

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

struct CausalKernel {
  CausalKernel(std::int64_t kernel_size, const std::string& kind, DType dtype)
      : side(kernel_size) {
    const std::int64_t reach = (kernel_size - 1) / 2;
    if (kind != "key_literal") shift.down = reach;
    if (kind != "query") shift.right = reach;
    if (kind == "diagonal") taps = causal_taps(kernel_size, dtype);
  }

  std::int64_t side;
  MapShift shift;
  Tensor taps;  // undefined: all taps count
};

Init kernel_init() {
  Init init;
  init.kind = Init::Kind::truncated_fan_in;
  return init;
}

// I = alpha M + (1 - alpha) S, L = beta ReLU(Z) + (1 - beta) I, where Z is the
// convolution of I, moved by `shift`; rows and columns that the shift leaves
// empty are 0. With alpha = 0, a step needs no previous map, so the first layer
// has its convolution too.
class EvolvingCausal final : public Evolve {
 public:
  EvolvingCausal(double alpha, double beta, const CausalKernel& kernel,
                 const SlotSite& site)
      : c_{alpha, 1 - alpha, alpha * (1 - beta), (1 - alpha) * (1 - beta),
           beta},
        kernel_(kernel) {
    if (site.layer == 0 && alpha != 0.0) c_ = {0, 0, 0, 1, 0};
    if (c_.w == 0.0) return;
    const std::string name = kConvName;
    weight_ = add_parameter(name + ".weight",
                            {site.heads, site.heads, kernel.side, kernel.side},
                            site.dtype, kernel_init());
    bias_ = add_parameter(name + ".bias", {site.heads}, site.dtype, {});
  }

  Evolved step(const Var& scores, const Var& previous,
               const AttentionContext& context) override {
    if (!previous.defined() && takes_previous()) return {scores, scores};
    const Var logits = evolve(previous, scores, kernel(), bias_, c_,
                              context.maps, kernel_.shift);
    return {logits, logits};
  }
  std::optional<ClosedFormView> closed_form() const override {
    return ClosedFormView{c_, 1.0, kernel(), bias_, kernel_.shift};
  }
  bool takes_previous() const override { return c_.a != 0.0 || c_.p != 0.0; }
  std::int64_t kernel_size() const override {
    return weight_.defined() ? kernel_.side : 1;
  }
  bool reads_later_queries() const override {
    return kernel_size() > 1 && kernel_.shift.down == 0;
  }
  std::optional<std::int64_t> reach_back() const override {
    if (reads_later_queries()) return {};
    return kernel_size() > 1 ? 2 * kernel_.shift.down : 0;
  }

 private:
  // The parameter stores the full square kernel; taps that do not count are set
  // to 0.
  Var kernel() const { return kernel_of(weight_, kernel_.taps); }

  EvolveCoefficients c_;
  CausalKernel kernel_;
  Var weight_, bias_;
};

std::unique_ptr<Evolve> make_evolving_causal(const Options& options,
                                             const SlotSite& site) {
  const double alpha = of_layer(options, "alpha", site);
  const double beta = of_layer(options, "beta", site);
  const CausalKernel kernel(options.integer("kernel_size"),
                            options.text("shift"), site.dtype);
  if (!options.flag("learnable")) {
    return std::make_unique<EvolvingCausal>(alpha, beta, kernel, site);
  }
  LearnedEvolvingConfig config{"evolving_causal", alpha, beta};
  config.kernel_size = kernel.side;
  config.init = kernel_init();
  config.shift = kernel.shift;
  config.taps = kernel.taps;
  config.plain = site.layer == 0 && alpha != 0.0;
  return std::make_unique<LearnedEvolving>(config, site);
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
