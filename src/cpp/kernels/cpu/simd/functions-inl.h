// The kernels of this folder, one line each, in the namespace of one
// instruction set: included once per set by targets.h, hence without an include
// guard.
namespace ea::simd::EA_TARGET {

void activation_backward(const ActivationBackward::Args& args);
void activation_forward(const ActivationForward::Args& args);
void adamw(const AdamW::Args& args);
void attention_context(const AttentionContext::Args& args);
void attention_context_backward(const AttentionContextBackward::Args& args);
void attention_scores(const AttentionScores::Args& args);
void attention_scores_backward(const AttentionScoresBackward::Args& args);
void axpby(const Axpby::Args& args);
void batch_norm_backward(const BatchNormBackward::Args& args);
void batch_norm_forward(const BatchNormForward::Args& args);
void batch_statistics(const BatchStatistics::Args& args);
void binary(const Binary::Args& args);
void conv1d_backward(const Conv1dBackward::Args& args);
void conv1d_forward(const Conv1dForward::Args& args);
void cross_entropy_backward(const CrossEntropyBackward::Args& args);
void cross_entropy_forward(const CrossEntropyForward::Args& args);
void dropout(const Dropout::Args& args);
void evolve_backward(const EvolveBackward::Args& args);
void evolve_forward(const EvolveForward::Args& args);
void fused_attention_backward(const FusedAttentionBackward::Args& args);
void fused_attention_forward(const FusedAttentionForward::Args& args);
void gather_rows(const GatherRows::Args& args);
void layer_norm_backward(const LayerNormBackward::Args& args);
void layer_norm_forward(const LayerNormForward::Args& args);
void map_conv_backward(const MapConvBackward::Args& args);
void map_conv_forward(const MapConvForward::Args& args);
void pack_maps(const PackMaps::Args& maps);
void pair_sum(const PairSum::Args& args);
void pair_sum_backward(const PairSumBackward::Args& args);
void radam(const RAdam::Args& args);
void relative_cells(const RelativeCells::Args& args);
void relative_sums(const RelativeSums::Args& args);
void scatter_add_rows(const ScatterAddRows::Args& args);
void sgd(const SGD::Args& args);
void softmax_backward(const SoftmaxBackward::Args& args);
void softmax_forward(const SoftmaxForward::Args& args);
void sum(const Sum::Args& args);
void sum_of_squares(const SumOfSquares::Args& args);
void unpack_maps(const UnpackMaps::Args& maps);
void weight_norm_backward(const WeightNormBackward::Args& args);
void weight_norm_forward(const WeightNormForward::Args& args);

}  // namespace ea::simd::EA_TARGET
