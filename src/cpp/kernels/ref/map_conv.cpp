// Reference convolution over the heads of attention maps, sequence by sequence.
#include "kernels/ref/map_conv.h"

#include "kernels/ref/kernels.h"

namespace ea::ref {

namespace {

template <typename T>
void forward_of(const MapConvForward::Args& args) {
  const MapLayout& layout = args.layout;
  const auto weight = read_wide<T>(args.weight, 0, args.weight.numel());
  const auto bias = read_wide<T>(args.bias, 0, args.bias.numel());
  for (std::int64_t b = 0; b < layout.sequences; ++b) {
    const MapGeometry g(layout, b, args.weight.dim(-1));
    const auto x = read_wide<T>(args.x, layout.begin(b), g.cells());
    write_wide<T>(convolve(g, x, weight, bias), args.y, layout.begin(b));
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
    const MapGeometry g(layout, b, args.weight.dim(-1));
    const auto dy = read_wide<T>(args.dy, layout.begin(b), g.cells());
    if (args.dx.defined()) {
      write_wide<T>(convolve_input_gradient(g, dy, weight), args.dx,
                    layout.begin(b));
    }
    if (args.dweight.defined() || args.dbias.defined()) {
      const auto x = read_wide<T>(args.x, layout.begin(b), g.cells());
      add_weight_gradient(g, dy, x, dweight, dbias);
    }
  }
  if (args.dweight.defined()) write_wide<T>(dweight, args.dweight, 0);
  if (args.dbias.defined()) write_wide<T>(dbias, args.dbias, 0);
}

}  // namespace

void map_conv_forward(const MapConvForward::Args& args) {
  visit_floating(args.weight.dtype, MapConvForward::name, [&](auto tag) {
    forward_of<typename decltype(tag)::type>(args);
  });
}

void map_conv_backward(const MapConvBackward::Args& args) {
  visit_floating(args.weight.dtype, MapConvBackward::name, [&](auto tag) {
    backward_of<typename decltype(tag)::type>(args);
  });
}

}  // namespace ea::ref
