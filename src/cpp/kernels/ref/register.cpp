// The list of reference kernels, one line per contract.
#include "kernels/ref/kernels.h"
#include "kernels/registry.h"

namespace ea {

void register_ref_kernels() {
  register_kernel<Binary>("ref", ref::binary);
  register_kernel<Axpby>("ref", ref::axpby);
  register_kernel<Sum>("ref", ref::sum);
  register_kernel<SumOfSquares>("ref", ref::sum_of_squares);
  register_kernel<MatMul>("ref", ref::matmul);
  register_kernel<ActivationForward>("ref", ref::activation_forward);
  register_kernel<ActivationBackward>("ref", ref::activation_backward);
  register_kernel<LayerNormForward>("ref", ref::layer_norm_forward);
  register_kernel<LayerNormBackward>("ref", ref::layer_norm_backward);
  register_kernel<SoftmaxForward>("ref", ref::softmax_forward);
  register_kernel<SoftmaxBackward>("ref", ref::softmax_backward);
  register_kernel<Dropout>("ref", ref::dropout);
  register_kernel<GatherRows>("ref", ref::gather_rows);
  register_kernel<ScatterAddRows>("ref", ref::scatter_add_rows);
  register_kernel<CrossEntropyForward>("ref", ref::cross_entropy_forward);
  register_kernel<CrossEntropyBackward>("ref", ref::cross_entropy_backward);
  register_kernel<AttentionScores>("ref", ref::attention_scores);
  register_kernel<AttentionScoresBackward>("ref",
                                           ref::attention_scores_backward);
  register_kernel<AttentionContext>("ref", ref::attention_context);
  register_kernel<AttentionContextBackward>("ref",
                                            ref::attention_context_backward);
  register_kernel<BatchStatistics>("ref", ref::batch_statistics);
  register_kernel<BatchNormForward>("ref", ref::batch_norm_forward);
  register_kernel<BatchNormBackward>("ref", ref::batch_norm_backward);
  register_kernel<WeightNormForward>("ref", ref::weight_norm_forward);
  register_kernel<WeightNormBackward>("ref", ref::weight_norm_backward);
  register_kernel<Conv1dForward>("ref", ref::conv1d_forward);
  register_kernel<Conv1dBackward>("ref", ref::conv1d_backward);
  register_kernel<MapConvForward>("ref", ref::map_conv_forward);
  register_kernel<MapConvBackward>("ref", ref::map_conv_backward);
  register_kernel<EvolveForward>("ref", ref::evolve_forward);
  register_kernel<EvolveBackward>("ref", ref::evolve_backward);
  register_kernel<FusedAttentionForward>("ref", ref::fused_attention_forward);
  register_kernel<FusedAttentionBackward>("ref", ref::fused_attention_backward);
  register_kernel<AdamW>("ref", ref::adamw);
  register_kernel<RAdam>("ref", ref::radam);
}

}  // namespace ea
