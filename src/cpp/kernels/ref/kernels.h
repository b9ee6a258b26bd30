// The reference kernels: one function per contract of kernels/, in scalar C++.
#pragma once

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/batch_norm.h"
#include "kernels/conv1d.h"
#include "kernels/copy.h"
#include "kernels/cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/evolve.h"
#include "kernels/fused_attention.h"
#include "kernels/gather.h"
#include "kernels/gemm.h"
#include "kernels/layer_norm.h"
#include "kernels/map_conv.h"
#include "kernels/optimizer.h"
#include "kernels/pair_sum.h"
#include "kernels/reduce.h"
#include "kernels/relative_cells.h"
#include "kernels/softmax.h"
#include "kernels/step_log.h"
#include "kernels/unpack_maps.h"
#include "kernels/weight_norm.h"

// All take float32, bfloat16 and float64, load each element into the wider
// Accumulator<T>, compute there and round once when they store. All run on the
// calling thread and add in the order of the loops, so that a result never
// depends on anything but the arguments.
namespace ea::ref {

void binary(const Binary::Args& args);
void axpby(const Axpby::Args& args);
void sum(const Sum::Args& args);
void sum_of_squares(const SumOfSquares::Args& args);
void matmul(const MatMul::Args& args);
void activation_forward(const ActivationForward::Args& args);
void activation_backward(const ActivationBackward::Args& args);
void layer_norm_forward(const LayerNormForward::Args& args);
void layer_norm_backward(const LayerNormBackward::Args& args);
void softmax_forward(const SoftmaxForward::Args& args);
void softmax_backward(const SoftmaxBackward::Args& args);
void dropout(const Dropout::Args& args);
void gather_rows(const GatherRows::Args& args);
void scatter_add_rows(const ScatterAddRows::Args& args);
void cross_entropy_forward(const CrossEntropyForward::Args& args);
void cross_entropy_backward(const CrossEntropyBackward::Args& args);
void attention_scores(const AttentionScores::Args& args);
void attention_scores_backward(const AttentionScoresBackward::Args& args);
void attention_context(const AttentionContext::Args& args);
void attention_context_backward(const AttentionContextBackward::Args& args);
void batch_statistics(const BatchStatistics::Args& args);
void move_average(const MoveAverage::Args& args);
void batch_norm_forward(const BatchNormForward::Args& args);
void batch_norm_backward(const BatchNormBackward::Args& args);
void weight_norm_forward(const WeightNormForward::Args& args);
void weight_norm_backward(const WeightNormBackward::Args& args);
void conv1d_forward(const Conv1dForward::Args& args);
void conv1d_backward(const Conv1dBackward::Args& args);
void relative_cells(const RelativeCells::Args& args);
void relative_sums(const RelativeSums::Args& args);
void unpack_maps(const UnpackMaps::Args& maps);
void pack_maps(const PackMaps::Args& maps);
void pair_sum(const PairSum::Args& args);
void pair_sum_backward(const PairSumBackward::Args& args);
void map_conv_forward(const MapConvForward::Args& args);
void map_conv_backward(const MapConvBackward::Args& args);
void evolve_forward(const EvolveForward::Args& args);
void evolve_backward(const EvolveBackward::Args& args);
void fused_attention_forward(const FusedAttentionForward::Args& args);
void fused_attention_backward(const FusedAttentionBackward::Args& args);
void adamw(const AdamW::Args& args);
void radam(const RAdam::Args& args);
void sgd(const SGD::Args& args);
void record_loss(const RecordLoss::Args& args);
void step_scale(const StepScale::Args& args);
void copy(const Copy::Args& args);
void cast(const Cast::Args& args);
void fill(const Fill::Args& args);

}  // namespace ea::ref
