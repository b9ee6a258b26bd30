// Reference convolution over the heads of attention maps, sequence by sequence.
#include "kernels/ref/map_conv.h"

#include "kernels/map_conv.h"
#include "kernels/ref/run.h"

namespace ea::ref {

namespace {

template <typename T>
void forward_of(const MapConvForward::Args& args) {
  const MapLayout& layout = args.layout;
  const auto weight = read_wide<T>(args.weight, 0, args.weight.numel());
  const auto bias = read_wide<T>(args.bias, 0, args.bias.numel());
  for (std::int64_t b = 0; b < layout.sequences; ++b) {
    const MapGeometry g(layout, b, args.weight.dim(-1), args.shift);
    auto x = read_wide<T>(args.x, layout.begin(b), g.cells());
    keep_existing(layout, b, x.data());
    auto y = convolve(g, x, weight, bias);
    keep_existing(layout, b, y.data(), args.shift);
    write_wide<T>(y, args.y, layout.begin(b));
  }
}

template <typename T>
void backward_of(const MapConvBackward::Args& args) {
  using A = Accumulator<T>;
  const MapLayout& layout = args.layout;
  const auto weight = read_wide<T>(args.weight, 0, args.weight.numel());
  std::vector<A> dweight(weight.size());
  std::vector<A> dbias(static_cast<std::size_t>(layout.heads));
  for (std::int64_t b = 0; b < layout.sequences; ++b) {
    const MapGeometry g(layout, b, args.weight.dim(-1), args.shift);
    auto dy = read_wide<T>(args.dy, layout.begin(b), g.cells());
    keep_existing(layout, b, dy.data(), args.shift);
    if (args.dx.defined()) {
      auto dx = convolve_input_gradient(g, dy, weight);
      keep_existing(layout, b, dx.data());
      write_wide<T>(dx, args.dx, layout.begin(b));
    }
    if (args.dweight.defined() || args.dbias.defined()) {
      auto x = read_wide<T>(args.x, layout.begin(b), g.cells());
      keep_existing(layout, b, x.data());
      add_weight_gradient(g, dy, x, dweight, dbias);
    }
  }
  if (args.dweight.defined()) write_wide<T>(dweight, args.dweight);
  if (args.dbias.defined()) write_wide<T>(dbias, args.dbias);
}

}  // namespace

EA_RUN_REF(MapConvForward, forward_of, weight)
EA_RUN_REF(MapConvBackward, backward_of, weight)

}  // namespace ea::ref
