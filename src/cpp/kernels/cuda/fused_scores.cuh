// Scores as float32 maps, and the input of the evolving step from them.
#pragma once

#include "kernels/cuda/attention_forms.cuh"
#include "kernels/cuda/evolve_cells.cuh"
#include "kernels/fused_attention.h"

namespace ea::cuda {

// Stores S of all heads as float32: rounding to bfloat16 would add errors that
// the convolution sums over heads.
template <typename T>
void store_scores(const FusedAttention& in, float* to) {
  const std::int64_t heads = in.layout.heads;
  run_products<T>(in.layout, MapForm<T, float>{{in.q, heads},
                                               {in.k, heads},
                                               to,
                                               static_cast<float>(in.scale),
                                               in.score_bias.as<T>()});
}

template <typename T>
MixedWindow<T, float> mixed_window(const FusedAttention& in,
                                   const float* scores) {
  return {{in.previous.as<T>(), scores, in.c}};
}

}  // namespace ea::cuda
