// List of all kernels, one line per contract, for the register.cpp of each
// backend and of the tests' devices.
#pragma once

#include <type_traits>

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/batch_norm.h"
#include "kernels/cached_attention.h"
#include "kernels/conv1d.h"
#include "kernels/conv2d.h"
#include "kernels/copy.h"
#include "kernels/cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/edge_attention.h"
#include "kernels/elementwise.h"
#include "kernels/evolve.h"
#include "kernels/fused_attention.h"
#include "kernels/gather.h"
#include "kernels/gemm.h"
#include "kernels/layer_norm.h"
#include "kernels/map_conv.h"
#include "kernels/optimizer.h"
#include "kernels/pair_sum.h"
#include "kernels/pool2d.h"
#include "kernels/reduce.h"
#include "kernels/relative_2d.h"
#include "kernels/relative_cells.h"
#include "kernels/rms_norm.h"
#include "kernels/softmax.h"
#include "kernels/step_log.h"
#include "kernels/unpack_maps.h"
#include "kernels/weight_norm.h"
#include "kernels/window_attention.h"

namespace ea {

template <typename K, typename... Others>
inline constexpr bool is_one_of = (std::is_same_v<K, Others> || ...);

// Calls to.kernel<K>() for each contract K that the CPU registers.
template <typename To>
void for_each_kernel(const To& to) {
  to.template kernel<Binary>();
  to.template kernel<Axpby>();
  to.template kernel<Sum>();
  to.template kernel<SumOfSquares>();
  to.template kernel<MatMul>();
  to.template kernel<ActivationForward>();
  to.template kernel<ActivationBackward>();
  to.template kernel<LayerNormForward>();
  to.template kernel<LayerNormBackward>();
  to.template kernel<RmsNormForward>();
  to.template kernel<RmsNormBackward>();
  to.template kernel<SoftmaxForward>();
  to.template kernel<SoftmaxBackward>();
  to.template kernel<Dropout>();
  to.template kernel<GatherRows>();
  to.template kernel<ScatterAddRows>();
  to.template kernel<CrossEntropyForward>();
  to.template kernel<CrossEntropyBackward>();
  to.template kernel<AttentionScores>();
  to.template kernel<AttentionScoresBackward>();
  to.template kernel<AttentionContext>();
  to.template kernel<AttentionContextBackward>();
  to.template kernel<CachedAttention>();
  to.template kernel<BatchStatistics>();
  to.template kernel<MoveAverage>();
  to.template kernel<BatchNormForward>();
  to.template kernel<BatchNormBackward>();
  to.template kernel<WeightNormForward>();
  to.template kernel<WeightNormBackward>();
  to.template kernel<Conv1dForward>();
  to.template kernel<Conv1dBackward>();
  to.template kernel<Conv2dForward>();
  to.template kernel<Conv2dBackward>();
  to.template kernel<MaxPool2dForward>();
  to.template kernel<MaxPool2dBackward>();
  to.template kernel<AvgPool2dForward>();
  to.template kernel<AvgPool2dBackward>();
  to.template kernel<RelativeCells>();
  to.template kernel<RelativeSums>();
  to.template kernel<Relative2dCells>();
  to.template kernel<Relative2dSums>();
  to.template kernel<UnpackMaps>();
  to.template kernel<PackMaps>();
  to.template kernel<PairSum>();
  to.template kernel<PairSumBackward>();
  to.template kernel<EdgePairSum>();
  to.template kernel<EdgePairSumBackward>();
  to.template kernel<EdgeProducts>();
  to.template kernel<EdgeSums>();
  to.template kernel<EdgeSoftmax>();
  to.template kernel<EdgeSoftmaxBackward>();
  to.template kernel<WindowProducts>();
  to.template kernel<WindowSums>();
  to.template kernel<WindowSoftmax>();
  to.template kernel<WindowSoftmaxBackward>();
  to.template kernel<UnpackWindows>();
  to.template kernel<PackWindows>();
  to.template kernel<MapConvForward>();
  to.template kernel<MapConvBackward>();
  to.template kernel<EvolveForward>();
  to.template kernel<EvolveBackward>();
  to.template kernel<FusedAttentionForward>();
  to.template kernel<FusedAttentionBackward>();
  to.template kernel<AdamW>();
  to.template kernel<RAdam>();
  to.template kernel<SGD>();
  to.template kernel<RecordLoss>();
  to.template kernel<StepScale>();
}

// Calls to.kernel<K>() for the others, which only devices register
// (kernels/copy.h).
template <typename To>
void for_each_copy(const To& to) {
  to.template kernel<Copy>();
  to.template kernel<Cast>();
  to.template kernel<Fill>();
}

}  // namespace ea
