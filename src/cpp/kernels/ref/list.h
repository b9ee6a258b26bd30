// The reference kernels, one line per contract: what register.cpp and the fake
// device of the tests register.
#pragma once

#include "kernels/ref/kernels.h"

namespace ea::ref {

// Calls to.kernel<K, entry>() for each.
template <typename To>
void for_each_kernel(const To& to) {
  to.template kernel<Binary, binary>();
  to.template kernel<Axpby, axpby>();
  to.template kernel<Sum, sum>();
  to.template kernel<SumOfSquares, sum_of_squares>();
  to.template kernel<MatMul, matmul>();
  to.template kernel<ActivationForward, activation_forward>();
  to.template kernel<ActivationBackward, activation_backward>();
  to.template kernel<LayerNormForward, layer_norm_forward>();
  to.template kernel<LayerNormBackward, layer_norm_backward>();
  to.template kernel<SoftmaxForward, softmax_forward>();
  to.template kernel<SoftmaxBackward, softmax_backward>();
  to.template kernel<Dropout, dropout>();
  to.template kernel<GatherRows, gather_rows>();
  to.template kernel<ScatterAddRows, scatter_add_rows>();
  to.template kernel<CrossEntropyForward, cross_entropy_forward>();
  to.template kernel<CrossEntropyBackward, cross_entropy_backward>();
  to.template kernel<AttentionScores, attention_scores>();
  to.template kernel<AttentionScoresBackward, attention_scores_backward>();
  to.template kernel<AttentionContext, attention_context>();
  to.template kernel<AttentionContextBackward, attention_context_backward>();
  to.template kernel<BatchStatistics, batch_statistics>();
  to.template kernel<MoveAverage, move_average>();
  to.template kernel<BatchNormForward, batch_norm_forward>();
  to.template kernel<BatchNormBackward, batch_norm_backward>();
  to.template kernel<WeightNormForward, weight_norm_forward>();
  to.template kernel<WeightNormBackward, weight_norm_backward>();
  to.template kernel<Conv1dForward, conv1d_forward>();
  to.template kernel<Conv1dBackward, conv1d_backward>();
  to.template kernel<RelativeCells, relative_cells>();
  to.template kernel<RelativeSums, relative_sums>();
  to.template kernel<UnpackMaps, unpack_maps>();
  to.template kernel<PackMaps, pack_maps>();
  to.template kernel<PairSum, pair_sum>();
  to.template kernel<PairSumBackward, pair_sum_backward>();
  to.template kernel<MapConvForward, map_conv_forward>();
  to.template kernel<MapConvBackward, map_conv_backward>();
  to.template kernel<EvolveForward, evolve_forward>();
  to.template kernel<EvolveBackward, evolve_backward>();
  to.template kernel<FusedAttentionForward, fused_attention_forward>();
  to.template kernel<FusedAttentionBackward, fused_attention_backward>();
  to.template kernel<AdamW, adamw>();
  to.template kernel<RAdam, radam>();
  to.template kernel<SGD, sgd>();
  to.template kernel<RecordLoss, record_loss>();
  to.template kernel<StepScale, step_scale>();
}

// Those that the CPU has no list for: see kernels/copy.h.
template <typename To>
void for_each_copy(const To& to) {
  to.template kernel<Copy, copy>();
  to.template kernel<Cast, cast>();
  to.template kernel<Fill, fill>();
}

}  // namespace ea::ref
