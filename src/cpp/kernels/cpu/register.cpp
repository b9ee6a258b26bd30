// The CPU's fast kernels, in order of preference, for the ISA in use.
#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/batch_norm.h"
#include "kernels/cached_attention.h"
#include "kernels/conv1d.h"
#include "kernels/conv2d.h"
#include "kernels/cpu/gemm_rows.h"
#include "kernels/cpu/onednn/conv2d.h"
#include "kernels/cpu/onednn/gemm.h"
#include "kernels/cpu/simd/targets.h"
#include "kernels/cpu/winograd.h"
#include "kernels/cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/edge_attention.h"
#include "kernels/elementwise.h"
#include "kernels/evolve.h"
#include "kernels/fused_attention.h"
#include "kernels/gather.h"
#include "kernels/layer_norm.h"
#include "kernels/map_conv.h"
#include "kernels/optimizer.h"
#include "kernels/pair_sum.h"
#include "kernels/pool2d.h"
#include "kernels/reduce.h"
#include "kernels/registry.h"
#include "kernels/relative_2d.h"
#include "kernels/relative_cells.h"
#include "kernels/rms_norm.h"
#include "kernels/softmax.h"
#include "kernels/unpack_maps.h"
#include "kernels/weight_norm.h"
#include "kernels/window_attention.h"
#include "runtime/cpu_info.h"

namespace ea {

namespace {

// Registers a kernel that is compiled for each instruction set. By default it
// leaves float64 to the reference kernels.
template <typename K>
void add(bool (*supports)(const typename K::Args&) = narrow<K>) {
  if (isa_used() == Isa::scalar) return;
  register_kernel<K>("simd", cpu::simd_kernel<K>(), supports);
}

// Kernels that copy take float64 too.
bool any_type(const auto&) { return true; }
bool floating_y(const auto& args) { return is_floating(args.y.dtype); }
bool floating_maps(const auto& args) { return is_floating(args.flat.dtype); }

// Registers matrix products and image convolutions: oneDNN's, and ours that
// share the work with them.
void register_products() {
  if (isa_used() != Isa::scalar) {
    register_kernel<Conv2dForward>("winograd", cpu::winograd,
                                   cpu::winograd_supports);
  }
  register_kernel<Conv2dForward>("onednn", onednn::conv2d_forward,
                                 narrow<Conv2dForward>);
  register_kernel<Conv2dBackward>("onednn", onednn::conv2d_backward,
                                  narrow<Conv2dBackward>);
  register_kernel<MatMul>("onednn", onednn::matmul,
                          [](const MatMul::Args& args) {
                            return onednn::matmul_supports(args) &&
                                   !cpu::row_product_is_faster(args);
                          });
  if (isa_used() != Isa::scalar) {
    // Takes products whose rows must be invariant and, with AVX2, those that it
    // computes faster.
    register_kernel<MatMul>("simd", cpu::row_product,
                            cpu::row_product_supports);
  }
  // Takes the same products as "onednn". Runs only when forced, for comparison.
  register_kernel<MatMul>("onednn_parallel", onednn::matmul_parallel,
                          onednn::matmul_supports);
}

}  // namespace

void register_cpu_kernels() {
  add<Binary>();
  add<Axpby>();
  add<Sum>();
  add<SumOfSquares>();
  add<ActivationForward>();
  add<ActivationBackward>();
  add<LayerNormForward>();
  add<LayerNormBackward>();
  add<RmsNormForward>();
  add<RmsNormBackward>();
  add<SoftmaxForward>();
  add<SoftmaxBackward>();
  add<Dropout>();
  add<GatherRows>(any_type);
  add<ScatterAddRows>();
  add<CrossEntropyForward>();
  add<CrossEntropyBackward>();
  add<AdamW>();
  add<RAdam>();
  add<SGD>();
  add<AttentionScores>();
  add<AttentionScoresBackward>();
  add<AttentionContext>();
  add<AttentionContextBackward>();
  add<CachedAttention>();
  add<BatchStatistics>();
  add<BatchNormForward>();
  add<BatchNormBackward>();
  add<WeightNormForward>();
  add<WeightNormBackward>();
  add<Conv1dForward>();
  add<Conv1dBackward>();
  add<MaxPool2dForward>();
  add<MaxPool2dBackward>();
  add<AvgPool2dForward>();
  add<AvgPool2dBackward>();
  add<RelativeCells>(floating_y);
  add<RelativeSums>();
  add<Relative2dCells>();
  add<Relative2dSums>();
  add<UnpackMaps>(floating_maps);
  add<PackMaps>(floating_maps);
  add<PairSum>();
  add<PairSumBackward>();
  add<EdgePairSum>();
  add<EdgePairSumBackward>();
  add<EdgeScores>();
  add<EdgeScoresBackward>();
  add<EdgeSoftmax>();
  add<EdgeSoftmaxBackward>();
  add<EdgeContext>();
  add<EdgeContextBackward>();
  add<WindowScores>();
  add<WindowScoresBackward>();
  add<WindowSoftmax>();
  add<WindowSoftmaxBackward>();
  add<WindowContext>();
  add<WindowContextBackward>();
  add<UnpackWindows>(floating_maps);
  add<PackWindows>(floating_maps);
  add<MapConvForward>();
  add<MapConvBackward>();
  add<EvolveForward>();
  add<EvolveBackward>();
  add<FusedAttentionForward>();
  add<FusedAttentionBackward>();
  register_products();
}

}  // namespace ea
