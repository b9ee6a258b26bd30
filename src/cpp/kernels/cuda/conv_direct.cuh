// Convolution over heads for windows that do not fit in shared memory: any
// number of heads and any kernel size, read directly from global memory.
#pragma once

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/conv_window.cuh"
#include "kernels/cuda/scratch.h"
#include "kernels/cuda/sum_columns.h"
#include "tensor/tensor_view.h"

namespace ea::cuda {

// Returns the cell loaded from source if it is inside the maps, else 0.
template <typename Source>
__device__ inline float cell_or_zero(const MapBlock& at, const Source& source,
                                     int h, std::int64_t i, std::int64_t j) {
  float one[1] = {};
  if (i >= 0 && i < at.queries && j >= 0 && j < at.keys) {
    source.load(at, h, static_cast<int>(i), static_cast<int>(j), one);
  }
  return one[0];
}

// Each warp computes 32 adjacent cells of a row for all heads, one head after
// another. Work and Weights: see conv_kernel.cuh.
template <typename Weights, typename Work>
__global__ void __launch_bounds__(kConvThreads, 4)
    direct_conv_kernel(MapBlocks blocks, ConvShape s, Weights weights,
                       Work work) {
  const MapBlock at = blocks.find(blockIdx.x);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int groups = (at.keys + kWarp - 1) / kWarp;
  const std::int64_t job = at.number * (kConvThreads / kWarp) +
                           static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t i = job / groups, j = job % groups * kWarp + lane;
  if (i >= at.queries) return;  // the whole warp returns; no barrier follows
  const bool mine = j < at.keys;
  const auto& source = work.input.value;
  for (int o = 0; o < s.heads; ++o) {
    float z = 0.0f;
    for (int c = 0; mine && c < s.heads; ++c) {
      for (int tap = 0; tap < s.taps(); ++tap) {
        z += weights(s, o, c, tap) *
             cell_or_zero(at, source, c,
                          i + weights.down() + tap / s.kernel - s.radius(),
                          j + weights.right() + tap % s.kernel - s.radius());
      }
    }
    z += weights.bias_of(o);
    if (mine) {
      z = weights.result(at, i, j, z);
      const float one[1] = {z};
      work.template finish<1>(at.row(o, i) + j, at.exists(i, j) ? 1u : 0u, one);
    }
    if constexpr (Work::kGates) {
      const unsigned open = __ballot_sync(kAllLanes, mine && !(z <= 0.0f));
      if (mine && lane % 8 == 0) {
        work.gate(at, o, i, j, static_cast<std::uint8_t>(open >> lane & 0xffu));
      }
    }
  }
}

// Each block computes one weight (o, c, u, v), or one bias after all the
// weights, and loops over the cells of all sequences of the launch: dweight =
// sum G[o, i + down, j + right] X[c, i + u - r, j + v - r], dbias = sum G[o].
template <typename G, typename X>
__global__ void __launch_bounds__(kConvThreads, 4)
    direct_weights_kernel(MapBlocks blocks, ConvShape s, MapShift shift, G g,
                          X x, float* dweight, float* dbias) {
  EA_SHARED(float, partial, kWarp);
  const std::int64_t weights = std::int64_t{s.heads} * s.heads * s.taps();
  const std::int64_t e = blockIdx.x;
  const bool bias = e >= weights;
  const int o = static_cast<int>(bias ? e - weights : e / s.taps() / s.heads);
  const int c = static_cast<int>(e / s.taps() % s.heads);
  const int tap = static_cast<int>(e % s.taps());
  float total = 0.0f;
  for (int b = 0; b < blocks.maps.sequences; ++b) {
    const MapBlock at = blocks.of_sequence(b, 0);
    const std::int64_t cells = std::int64_t{at.queries} * at.keys;
    for (std::int64_t cell = threadIdx.x; cell < cells; cell += kConvThreads) {
      const std::int64_t i = cell / at.keys, j = cell % at.keys;
      const float right =
          bias ? 1.0f
               : cell_or_zero(at, x, c,
                              i - shift.down + tap / s.kernel - s.radius(),
                              j - shift.right + tap % s.kernel - s.radius());
      total += cell_or_zero(at, g, o, i, j) * right;
    }
  }
  total = block_sum(total, partial);
  if (threadIdx.x == 0) *(bias ? dbias + o : dweight + e) = total;
}

template <typename Weights, typename Work>
void run_direct_conv(const MapLayout& layout, const ConvShape& shape,
                     const Weights& weights, const Work& work) {
  constexpr std::int64_t kWarps = kConvThreads / kWarp;
  const auto count = [&](std::int64_t queries, std::int64_t keys) {
    const std::int64_t jobs = queries * ((keys + kWarp - 1) / kWarp);
    return (jobs + kWarps - 1) / kWarps;
  };
  launch_map_blocks(layout, count, kConvThreads, 0,
                    direct_conv_kernel<Weights, Work>, shape, weights, work);
}

// Computes dweight and dbias; each is optional.
template <typename T, typename G, typename X>
void run_direct_weights(const MapLayout& layout, const ConvShape& shape,
                        const MapShift& shift, const G& g, const X& x,
                        const TensorView& dweight, const TensorView& dbias) {
  const std::int64_t heads = shape.heads;
  const std::int64_t weights = heads * heads * shape.taps();
  const std::int64_t most = layout.sequences / MapRows::kMost + 1;
  const Scratch<float> dw(current_stream(), most * weights);
  const Scratch<float> db(current_stream(), most * heads);
  std::int64_t launches = 0;
  for_map_blocks(
      layout, [](std::int64_t, std::int64_t) { return 1; },
      [&](const MapBlocks& blocks, unsigned) {
        launch(current_stream(), blocks_for(weights + heads, 1), kConvThreads,
               0, direct_weights_kernel<G, X>, blocks, shape, shift, g, x,
               dw.data() + launches * weights, db.data() + launches * heads);
        ++launches;
      });
  if (dweight.defined()) {
    sum_columns(dw.data(), dweight.as<T>(), launches, weights);
  }
  if (dbias.defined()) {
    sum_columns(db.data(), dbias.as<T>(), launches, heads);
  }
}

}  // namespace ea::cuda
