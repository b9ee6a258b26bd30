// The CPU's fast kernels, in order of preference, for the ISA in use.
#include "kernels/cpu/onednn/gemm.h"
#include "kernels/cpu/simd/targets.h"
#include "kernels/registry.h"
#include "runtime/cpu_info.h"

namespace ea {

namespace {

// One kernel, compiled for each instruction set.
template <typename Args>
using Run = void (*)(const Args&);

template <typename K>
void add(Run<typename K::Args> avx2, Run<typename K::Args> avx512,
         bool (*supports)(const typename K::Args&)) {
  const Isa isa = isa_used();
  if (isa == Isa::scalar) return;
  register_kernel<K>("simd", isa == Isa::avx512 ? avx512 : avx2, supports);
}

// Float64 is the business of the reference kernels.
bool narrow(const TensorView& view) {
  return view.dtype == DType::f32 || view.dtype == DType::bf16;
}

bool narrow_y(const auto& args) { return narrow(args.y); }
bool narrow_dy(const auto& args) { return narrow(args.dy); }
bool narrow_x(const auto& args) { return narrow(args.x); }
bool narrow_dx(const auto& args) { return narrow(args.dx); }
bool narrow_logits(const auto& args) { return narrow(args.logits); }
bool narrow_q(const auto& args) { return narrow(args.q); }
bool narrow_in(const auto& args) { return narrow(args.in.q); }
bool narrow_v(const auto& args) { return narrow(args.v); }
bool narrow_weight(const auto& args) { return narrow(args.weight); }
bool any_dtype(const auto&) { return true; }
// Copies take float64 too.
bool floating_y(const auto& args) { return is_floating(args.y.dtype); }
bool floating_maps(const auto& args) { return is_floating(args.flat.dtype); }

bool narrow_list(const SumOfSquares::Args& args) {
  for (const TensorView& x : *args.xs) {
    if (!narrow(x)) return false;
  }
  return true;
}

bool narrow_parameters(const auto& args) {
  for (const AdamWTensor& one : *args.tensors) {
    if (!narrow(one.param) || one.grad.dtype != one.param.dtype) return false;
  }
  return true;
}

}  // namespace

void register_cpu_kernels() {
  namespace a = simd::avx2;
  namespace b = simd::avx512;
  add<Binary>(a::binary, b::binary, narrow_y);
  add<Axpby>(a::axpby, b::axpby, narrow_y);
  add<Sum>(a::sum, b::sum, narrow_x);
  add<SumOfSquares>(a::sum_of_squares, b::sum_of_squares, narrow_list);
  add<ActivationForward>(a::activation_forward, b::activation_forward,
                         narrow_x);
  add<ActivationBackward>(a::activation_backward, b::activation_backward,
                          narrow_x);
  add<LayerNormForward>(a::layer_norm_forward, b::layer_norm_forward, narrow_x);
  add<LayerNormBackward>(a::layer_norm_backward, b::layer_norm_backward,
                         narrow_x);
  add<SoftmaxForward>(a::softmax_forward, b::softmax_forward, narrow_x);
  add<SoftmaxBackward>(a::softmax_backward, b::softmax_backward, narrow_dx);
  add<Dropout>(a::dropout, b::dropout, narrow_x);
  add<GatherRows>(a::gather_rows, b::gather_rows, any_dtype);
  add<ScatterAddRows>(a::scatter_add_rows, b::scatter_add_rows, narrow_dx);
  add<CrossEntropyForward>(a::cross_entropy_forward, b::cross_entropy_forward,
                           narrow_logits);
  add<CrossEntropyBackward>(a::cross_entropy_backward,
                            b::cross_entropy_backward, narrow_logits);
  add<AdamW>(a::adamw, b::adamw, narrow_parameters);
  add<RAdam>(a::radam, b::radam, narrow_parameters);
  add<SGD>(a::sgd, b::sgd, narrow_parameters);
  add<AttentionScores>(a::attention_scores, b::attention_scores, narrow_q);
  add<AttentionScoresBackward>(a::attention_scores_backward,
                               b::attention_scores_backward, narrow_q);
  add<AttentionContext>(a::attention_context, b::attention_context, narrow_v);
  add<AttentionContextBackward>(a::attention_context_backward,
                                b::attention_context_backward, narrow_v);
  add<BatchStatistics>(a::batch_statistics, b::batch_statistics, narrow_x);
  add<BatchNormForward>(a::batch_norm_forward, b::batch_norm_forward, narrow_x);
  add<BatchNormBackward>(a::batch_norm_backward, b::batch_norm_backward,
                         narrow_x);
  add<WeightNormForward>(a::weight_norm_forward, b::weight_norm_forward,
                         narrow_v);
  add<WeightNormBackward>(a::weight_norm_backward, b::weight_norm_backward,
                          narrow_v);
  add<Conv1dForward>(a::conv1d_forward, b::conv1d_forward, narrow_weight);
  add<Conv1dBackward>(a::conv1d_backward, b::conv1d_backward, narrow_weight);
  add<RelativeCells>(a::relative_cells, b::relative_cells, floating_y);
  add<RelativeSums>(a::relative_sums, b::relative_sums, narrow_y);
  add<UnpackMaps>(a::unpack_maps, b::unpack_maps, floating_maps);
  add<PackMaps>(a::pack_maps, b::pack_maps, floating_maps);
  add<PairSum>(a::pair_sum, b::pair_sum, narrow_y);
  add<PairSumBackward>(a::pair_sum_backward, b::pair_sum_backward, narrow_dy);
  add<MapConvForward>(a::map_conv_forward, b::map_conv_forward, narrow_weight);
  add<MapConvBackward>(a::map_conv_backward, b::map_conv_backward,
                       narrow_weight);
  add<EvolveForward>(a::evolve_forward, b::evolve_forward, narrow_weight);
  add<EvolveBackward>(a::evolve_backward, b::evolve_backward, narrow_weight);
  add<FusedAttentionForward>(a::fused_attention_forward,
                             b::fused_attention_forward, narrow_in);
  add<FusedAttentionBackward>(a::fused_attention_backward,
                              b::fused_attention_backward, narrow_in);
  register_kernel<MatMul>("onednn", onednn::matmul, onednn::matmul_supports);
  // Takes what the one before it takes: for comparison, when it is forced.
  register_kernel<MatMul>("onednn_parallel", onednn::matmul_parallel,
                          onednn::matmul_supports);
}

}  // namespace ea
