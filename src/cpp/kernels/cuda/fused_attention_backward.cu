// Fused attention, backward: gradients through context, softmax and the
// evolving step to queries, keys, values and the convolution.
#include <optional>
#include <utility>

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

  template <int N>
  __device__ void load(const MapBlock& at, int h, int i, int j,
                       float (&v)[N]) const {
    const CellOfHeads cell(at, h, i, j);
    // Same as gate_byte() of the heads' rows.
    const std::uint8_t* const of_rows =
        gates + row_number(at, heads, h, i) + (j >> 3);
    const auto queries = static_cast<unsigned>(at.queries);
    const auto column = static_cast<unsigned>(j);
    unsigned bytes[N];
#pragma unroll
    for (int k = 0; k < N; ++k) {
      v[k] = __ldg(dl + cell(k));
      bytes[k] = __ldg(of_rows + ((cell(k) - column) >> 3) +
                       std::uint64_t{cell.step(k)} * queries);
    }
#pragma unroll
    for (int k = 0; k < N; ++k) {
      v[k] = (bytes[k] >> (j & 7) & 1u) != 0 ? w * v[k] : 0.0f;
    }
  }
};

using GatedWindow = FromCells<kFloatParts, GatedCells>;

// Gradients of the convolution, then dS and dM, from dL. S is freed before dS
// is allocated.
template <typename T>
void weight_gradients(const FusedAttentionBackward::Args& args,
                      const GatedWindow& g) {
  const FusedAttention& in = args.in;
  const Scratch<float> scores(current_stream(), in.layout.numel());
  store_scores<T>(in, scores.data());
  run_weights<T>(in.layout, in.weight.dim(-1), in.shift, g,
                 mixed_window<T>(in, scores.data()), args.dweight, args.dbias);
}
template <typename T>
void map_gradients(const FusedAttentionBackward::Args& args,
                   const GatedWindow& g, float* ds) {
  const FusedAttention& in = args.in;
  run_conv<T>(in.layout, in.weight.dim(-1),
              {in.weight.as<T>(), nullptr, true, in.shift},
              EvolveGradientWork<GatedWindow, float, float, T>{
                  g, in.c, g.value.dl, ds, args.dprevious.as<T>(),
                  args.dscore_bias.as<T>()});
}

// kConvolved: dL and dS are stored as float32 between the kernels, because
// rounding to bfloat16 would be visible in the sums of dweight, dq and dk.
template <typename T, bool kConvolved, typename Logits>
void backward_of(const FusedAttentionBackward::Args& args,
                 const Logits& logits) {
  const FusedAttention& in = args.in;
  const MapLayout& layout = in.layout;
  const std::int64_t heads = layout.heads;
  const std::int64_t cells = kConvolved ? layout.numel() : 0;
  std::optional<Scratch<float>> dl(std::in_place, current_stream(), cells);
  const std::int64_t rows = heads * layout.q_offsets[layout.sequences];
  const Scratch<float> dots(current_stream(), kConvolved ? 0 : rows);
  KeptCells<Share<T>> kept{DropBits(in.p, in.seed, in.stream)};
  std::optional<Scratch<std::uint64_t>> words;
  if constexpr (requires { kept.words; }) {
    if (kept.drop.on()) {
      words.emplace(current_stream(), kept.words_of(layout.numel(), rows));
      kept.words = words->data();
    }
  }
  const LogitGradient<T> gradient{{in.q, heads},
                                  {in.k, heads},
                                  {args.dy, heads},
                                  {in.v, heads},
                                  args.statistics.as<float>(),
                                  args.dcarry.as<T>(),
                                  dots.data(),
                                  heads,
                                  static_cast<float>(in.softmax_scale),
                                  kept};
  const TokenRows<T> dq(args.dq, heads);
  // Without a convolution dS = s dL, and s goes into the scale.
  const auto scale =
      static_cast<float>(kConvolved ? in.scale : in.scale * in.c.s);
  run_rows<T, kConvolved>(layout, gradient,
                          RowGradient<T>{dl->data(), dq, scale}, logits);
  std::optional<Scratch<float>> ds;
  if constexpr (kConvolved) {
    const GatedWindow gated{{dl->data(), args.gates.as<std::uint8_t>(), heads,
                             static_cast<float>(in.c.w)}};
    weight_gradients<T>(args, gated);
    ds.emplace(current_stream(), cells);
    map_gradients<T>(args, gated, ds->data());
    dl.reset();
    run_products<T>(layout,
                    QueryForm<T, float>{{ds->data()}, gradient.k, dq, scale});
  } else {
    run_maps<T>(
        layout, gradient,
        MapGradient<T>{args.dprevious.as<T>(), args.dscore_bias.as<T>(),
                       static_cast<float>(in.c.p), static_cast<float>(in.c.s)},
        logits);
  }
  run_keys<T, kConvolved>(
      layout, gradient,
      KeyGradient<T>{
          ds ? ds->data() : nullptr, {args.dk, heads}, {args.dv, heads}, scale},
      logits);
}

template <typename T>
void fused_attention_backward_of(const FusedAttentionBackward::Args& args) {
  const StoredLogits<T> stored{args.carry.as<T>()};
  if (args.in.c.w != 0.0) return backward_of<T, true>(args, stored);
  if (args.carry.defined()) return backward_of<T, false>(args, stored);
  backward_of<T, false>(args, made_logits<T>(args.in, nullptr));
}

}  // namespace

EA_RUN_CUDA(FusedAttentionBackward, fused_attention_backward_of, in.q)

}  // namespace ea::cuda
