// Fused attention, backward: through context, softmax and the evolving step to
// queries, keys, values and the convolution.
#include "kernels/cuda/conv_weights.cuh"
#include "kernels/cuda/fused_gradients.cuh"
#include "kernels/cuda/fused_scores.cuh"
#include "kernels/cuda/run.h"
#include "kernels/fused_attention.h"

namespace ea::cuda {

namespace {

// G = w dL where the gate is open.
struct GatedCells {
  const float* dl;
  const std::uint8_t* gates;
  std::int64_t heads;
  float w;

  __device__ float operator()(const MapBlock& at, int h, std::int64_t i,
                              std::int64_t j) const {
    const unsigned byte = __ldg(gates + gate_of(at, heads, h, i, j));
    const float g = w * __ldg(dl + at.row(h, i) + j);
    return (byte >> (j & 7) & 1u) != 0 ? g : 0.0f;
  }
};

using GatedWindow = FromCells<kFloatParts, GatedCells>;

// dS, dM and the gradients of the convolution, from dL.
template <typename T>
void evolve_gradients(const FusedAttentionBackward::Args& args, const float* dl,
                      float* ds) {
  const FusedAttention& in = args.in;
  const std::int64_t kernel = in.weight.dim(-1);
  const EvolveNumbers c(in.c);
  const GatedWindow g{
      {dl, args.gates.as<std::uint8_t>(), in.layout.heads, c.w}};
  run_conv<T>(
      in.layout, kernel, {in.weight.as<T>(), nullptr, true, in.shift},
      EvolveGradientWork<GatedWindow, float, float, T>{
          g, c, dl, ds, args.dprevious.as<T>(), args.dscore_bias.as<T>()});
  const ConvShape shape = shape_of_weights<T>(in.layout.heads, kernel);
  if (shape.columns > 0) {
    return run_weights<T>(in.layout, kernel, in.shift, g, scored_window<T>(in),
                          args.dweight, args.dbias);
  }
  const Scratch<float> scores(current_stream(), in.layout.numel());
  store_scores<T>(in, scores.data());
  run_direct_weights<T>(in.layout, shape, in.shift, g.value,
                        mixed_cells<T>(in, scores.data()), args.dweight,
                        args.dbias);
}

// kConvolved: dL and dS lie between the kernels as float32, because rounded to
// bfloat16 the sums in dweight, dq and dk would show it.
template <typename T, bool kConvolved, typename Logits>
void backward_of(const FusedAttentionBackward::Args& args,
                 const Logits& logits) {
  const FusedAttention& in = args.in;
  const MapLayout& layout = in.layout;
  const std::int64_t heads = layout.heads;
  const std::int64_t cells = kConvolved ? layout.numel() : 0;
  const Scratch<float> dl(current_stream(), cells), ds(current_stream(), cells);
  const Scratch<float> dots(
      current_stream(),
      kConvolved ? 0 : heads * layout.q_offsets[layout.sequences]);
  const LogitGradient<T> gradient{{in.q, heads},
                                  {in.k, heads},
                                  {args.dy, heads},
                                  {in.v, heads},
                                  args.statistics.as<float>(),
                                  args.dcarry.as<T>(),
                                  dots.data(),
                                  heads,
                                  static_cast<float>(in.softmax_scale),
                                  DropBits(in.p, in.seed, in.stream)};
  const TokenRows<T> dq(args.dq, heads);
  // Without a convolution dS = s dL, and s goes into the scale.
  const auto scale =
      static_cast<float>(kConvolved ? in.scale : in.scale * in.c.s);
  run_rows<T, kConvolved>(
      layout, gradient,
      RowGradient<T>{dl.data(), dq, args.dprevious.as<T>(),
                     args.dscore_bias.as<T>(), static_cast<float>(in.c.p),
                     static_cast<float>(in.c.s), scale},
      logits);
  if constexpr (kConvolved) {
    evolve_gradients<T>(args, dl.data(), ds.data());
    using Maps = StoredMaps<float>;
    run_products<T>(layout,
                    QueryForm<T, Maps>{{ds.data()}, gradient.k, dq, scale});
  }
  run_keys<T, kConvolved>(
      layout, gradient,
      KeyGradient<T>{ds.data(), {args.dk, heads}, {args.dv, heads}, scale},
      logits);
}

}  // namespace

template <>
void run<FusedAttentionBackward>(const FusedAttentionBackward::Args& args) {
  visit_narrow(args.in.q.dtype, FusedAttentionBackward::name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const StoredLogits<T> stored{args.carry.as<T>()};
    if (args.in.c.w != 0.0) return backward_of<T, true>(args, stored);
    if (args.carry.defined()) return backward_of<T, false>(args, stored);
    backward_of<T, false>(args, made_logits<T>(args.in, nullptr));
  });
}

}  // namespace ea::cuda
