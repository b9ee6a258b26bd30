// The CUDA kernels, one line per contract: what register.cpp and the host
// emulation of the tests register.
#pragma once

#include "kernels/cuda/kernels.h"

namespace ea::cuda {

// Float64 is the business of the reference kernels.
inline bool narrow(const TensorView& view) {
  return view.dtype == DType::f32 || view.dtype == DType::bf16;
}

template <typename Args>
bool narrow_x(const Args& args) {
  return narrow(args.x);
}

template <typename Args>
bool narrow_y(const Args& args) {
  return narrow(args.y);
}

template <typename Args>
bool narrow_dy(const Args& args) {
  return narrow(args.dy);
}

inline bool narrow_maps(const PaddedMaps& args) { return narrow(args.flat); }

template <typename Args>
bool narrow_running(const Args& args) {
  return narrow(args.running);
}

template <typename Args>
bool narrow_dx(const Args& args) {
  return narrow(args.dx);
}

template <typename Args>
bool narrow_q(const Args& args) {
  return narrow(args.q);
}

template <typename Args>
bool narrow_v(const Args& args) {
  return narrow(args.v);
}

template <typename Args>
bool narrow_p(const Args& args) {
  return narrow(args.p);
}

template <typename Args>
bool narrow_logits(const Args& args) {
  return narrow(args.logits);
}

template <typename Args>
bool narrow_weight(const Args& args) {
  return narrow(args.weight);
}

template <typename Args>
bool narrow_fused(const Args& args) {
  return narrow(args.in.q);
}

inline bool narrow_loss(const RecordLoss::Args& args) {
  return narrow(args.loss);
}

inline bool any_dtype(const GatherRows::Args&) { return true; }

inline bool narrow_list(const SumOfSquares::Args& args) {
  for (const TensorView& x : *args.xs) {
    if (!narrow(x)) return false;
  }
  return true;
}

template <typename Args>
bool narrow_parameters(const Args& args) {
  for (const AdamWTensor& one : *args.tensors) {
    if (!narrow(one.param) || one.grad.dtype != one.param.dtype) return false;
  }
  return true;
}

// Calls to.kernel<K, entry>(supports) for each.
template <typename To>
void for_each_kernel(const To& to) {
  to.template kernel<Binary, binary>(narrow_y);
  to.template kernel<Axpby, axpby>(narrow_y);
  to.template kernel<Sum, sum>(narrow_x);
  to.template kernel<SumOfSquares, sum_of_squares>(narrow_list);
  to.template kernel<ActivationForward, activation_forward>(narrow_x);
  to.template kernel<ActivationBackward, activation_backward>(narrow_x);
  to.template kernel<LayerNormForward, layer_norm_forward>(narrow_x);
  to.template kernel<LayerNormBackward, layer_norm_backward>(narrow_x);
  to.template kernel<BatchStatistics, batch_statistics>(narrow_x);
  to.template kernel<MoveAverage, move_average>(narrow_running);
  to.template kernel<BatchNormForward, batch_norm_forward>(narrow_x);
  to.template kernel<BatchNormBackward, batch_norm_backward>(narrow_x);
  to.template kernel<WeightNormForward, weight_norm_forward>(narrow_v);
  to.template kernel<WeightNormBackward, weight_norm_backward>(narrow_v);
  to.template kernel<Conv1dForward, conv1d_forward>(narrow_x);
  to.template kernel<Conv1dBackward, conv1d_backward>(narrow_x);
  to.template kernel<Dropout, dropout>(narrow_x);
  to.template kernel<SoftmaxForward, softmax_forward>(narrow_x);
  to.template kernel<SoftmaxBackward, softmax_backward>(narrow_dx);
  to.template kernel<GatherRows, gather_rows>(any_dtype);
  to.template kernel<ScatterAddRows, scatter_add_rows>(narrow_dx);
  to.template kernel<CrossEntropyForward, cross_entropy_forward>(narrow_logits);
  to.template kernel<CrossEntropyBackward, cross_entropy_backward>(
      narrow_logits);
  to.template kernel<AttentionScores, attention_scores>(narrow_q);
  to.template kernel<AttentionScoresBackward, attention_scores_backward>(
      narrow_q);
  to.template kernel<AttentionContext, attention_context>(narrow_p);
  to.template kernel<AttentionContextBackward, attention_context_backward>(
      narrow_p);
  to.template kernel<RelativeCells, relative_cells>(narrow_y);
  to.template kernel<RelativeSums, relative_sums>(narrow_y);
  to.template kernel<UnpackMaps, unpack_maps>(narrow_maps);
  to.template kernel<PackMaps, pack_maps>(narrow_maps);
  to.template kernel<PairSum, pair_sum>(narrow_y);
  to.template kernel<PairSumBackward, pair_sum_backward>(narrow_dy);
  to.template kernel<MapConvForward, map_conv_forward>(narrow_weight);
  to.template kernel<MapConvBackward, map_conv_backward>(narrow_weight);
  to.template kernel<EvolveForward, evolve_forward>(narrow_weight);
  to.template kernel<EvolveBackward, evolve_backward>(narrow_weight);
  to.template kernel<FusedAttentionForward, fused_attention_forward>(
      narrow_fused);
  to.template kernel<FusedAttentionBackward, fused_attention_backward>(
      narrow_fused);
  to.template kernel<AdamW, adamw>(narrow_parameters);
  to.template kernel<RAdam, radam>(narrow_parameters);
  to.template kernel<SGD, sgd>(narrow_parameters);
  to.template kernel<MatMul, matmul>(narrow_y);
  to.template kernel<RecordLoss, record_loss>(narrow_loss);
  to.template kernel<StepScale, step_scale>(nullptr);
}

// Those that the CPU has no list for: see kernels/copy.h.
template <typename To>
void for_each_copy(const To& to) {
  to.template kernel<Copy, copy>(nullptr);
  to.template kernel<Cast, cast>(nullptr);
  to.template kernel<Fill, fill>(nullptr);
}

}  // namespace ea::cuda
