// Reference evolving step (Wang et al., ICML 2021, Eq. 4) in its closed form.
#include "kernels/evolve.h"

#include "kernels/ref/map_conv.h"
#include "kernels/ref/run.h"

namespace ea::ref {

namespace {

// Returns I = a M + b S of one sequence; the previous map M may be empty.
template <typename A>
std::vector<A> mix(const EvolveCoefficients& c, const std::vector<A>& previous,
                   const std::vector<A>& scores) {
  std::vector<A> input(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const A s = A(c.b) * scores[i];
    input[i] = previous.empty() ? s : A(c.a) * previous[i] + s;
  }
  return input;
}

// Returns the maps of sequence b, empty if `maps` is undefined.
template <typename T>
std::vector<Accumulator<T>> read_maps(const TensorView& maps,
                                      const MapLayout& layout, std::int64_t b,
                                      const MapGeometry& g) {
  if (!maps.defined()) return {};
  auto out = read_wide<T>(maps, layout.begin(b), g.cells());
  keep_existing(layout, b, out.data());
  return out;
}

// L = p M + s S + w ReLU(Conv(I)).
template <typename T>
void forward_of(const EvolveForward::Args& args) {
  using A = Accumulator<T>;
  const MapLayout& layout = args.layout;
  const EvolveCoefficients& c = args.c;
  const auto weight = read_wide<T>(args.weight, 0, args.weight.numel());
  const auto bias = read_wide<T>(args.bias, 0, args.bias.numel());
  for (std::int64_t b = 0; b < layout.sequences; ++b) {
    const MapGeometry g(layout, b, args.weight.dim(-1), args.shift);
    const std::int64_t begin = layout.begin(b);
    const auto previous = read_maps<T>(args.previous, layout, b, g);
    const auto scores = read_maps<T>(args.scores, layout, b, g);
    auto z = convolve(g, mix(c, previous, scores), weight, bias);
    keep_existing(layout, b, z.data(), args.shift);
    std::vector<A> out(z.size());
    for (std::size_t i = 0; i < z.size(); ++i) {
      const A activated = z[i] < 0 ? A(0) : z[i];
      const A kept = previous.empty() ? A(0) : A(c.p) * previous[i];
      out[i] = kept + A(c.s) * scores[i] + A(c.w) * activated;
    }
    write_wide<T>(out, args.out, begin);
  }
}

// L depends on Z = Conv(I) through w ReLU, so G = dL/dZ = w dL [Z > 0]. The
// convolution's transposes map G to the gradients of I, weight and bias. I = a
// M + b S and the direct terms p M + s S give
//   dM = p dL + a dI,   dS = s dL + b dI.
// Z is recomputed: keeping it would cost a second map per layer.
template <typename T>
void backward_of(const EvolveBackward::Args& args) {
  using A = Accumulator<T>;
  const MapLayout& layout = args.layout;
  const EvolveCoefficients& c = args.c;
  const auto weight = read_wide<T>(args.weight, 0, args.weight.numel());
  const auto bias = read_wide<T>(args.bias, 0, args.bias.numel());
  std::vector<A> dweight(weight.size());
  std::vector<A> dbias(bias.size());
  for (std::int64_t b = 0; b < layout.sequences; ++b) {
    const MapGeometry g(layout, b, args.weight.dim(-1), args.shift);
    const std::int64_t begin = layout.begin(b);
    const auto previous = read_maps<T>(args.previous, layout, b, g);
    const auto scores = read_maps<T>(args.scores, layout, b, g);
    const auto dout = read_maps<T>(args.dout, layout, b, g);
    const auto input = mix(c, previous, scores);
    auto z = convolve(g, input, weight, bias);
    keep_existing(layout, b, z.data(), args.shift);
    std::vector<A> dz(z.size());
    for (std::size_t i = 0; i < z.size(); ++i) {
      dz[i] = z[i] <= 0 ? A(0) : A(c.w) * dout[i];
    }
    auto dinput = convolve_input_gradient(g, dz, weight);
    keep_existing(layout, b, dinput.data());
    add_weight_gradient(g, dz, input, dweight, dbias);
    std::vector<A> dscores(z.size());
    std::vector<A> dprevious(z.size());
    for (std::size_t i = 0; i < z.size(); ++i) {
      dscores[i] = A(c.s) * dout[i] + A(c.b) * dinput[i];
      dprevious[i] = A(c.p) * dout[i] + A(c.a) * dinput[i];
    }
    write_wide<T>(dscores, args.dscores, begin);
    if (args.dprevious.defined()) {
      write_wide<T>(dprevious, args.dprevious, begin);
    }
  }
  write_wide<T>(dweight, args.dweight);
  write_wide<T>(dbias, args.dbias);
}

}  // namespace

EA_RUN_REF(EvolveForward, forward_of, scores)
EA_RUN_REF(EvolveBackward, backward_of, scores)

}  // namespace ea::ref
