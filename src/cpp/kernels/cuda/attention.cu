// Attention scores, context and their gradients: six products by one kernel.
#include "kernels/attention.h"
#include "kernels/cuda/attention_forms.cuh"
#include "kernels/cuda/run.h"

namespace ea::cuda {

namespace {

template <typename T>
void attention_scores_of(const AttentionScores::Args& args) {
  const std::int64_t heads = args.layout.heads;
  run_products<T>(args.layout, MapForm<T, T>{{args.q, heads},
                                             {args.k, heads},
                                             args.scores.as<T>(),
                                             static_cast<float>(args.scale)});
}

// S = scale Q K^T, so dQ = scale dS K and dK = scale dS^T Q.
template <typename T>
void attention_scores_backward_of(const AttentionScoresBackward::Args& args) {
  const std::int64_t heads = args.layout.heads;
  const StoredMaps<T> ds{args.dscores.as<T>()};
  const auto scale = static_cast<float>(args.scale);
  run_products<T>(
      args.layout,
      QueryForm<T, T>{ds, {args.k, heads}, {args.dq, heads}, scale});
  run_products<T>(args.layout,
                  KeyForm<T>{ds, {args.q, heads}, {args.dk, heads}, scale});
}

template <typename T>
void attention_context_of(const AttentionContext::Args& args) {
  const std::int64_t heads = args.layout.heads;
  run_products<T>(
      args.layout,
      QueryForm<T, T>{
          {args.p.as<T>()}, {args.v, heads}, {args.y, heads}, 1.0f});
}

// Y = P V, so dP = dY V^T and dV = P^T dY.
template <typename T>
void attention_context_backward_of(const AttentionContextBackward::Args& args) {
  const std::int64_t heads = args.layout.heads;
  run_products<T>(
      args.layout,
      MapForm<T, T>{{args.dy, heads}, {args.v, heads}, args.dp.as<T>(), 1.0f});
  run_products<T>(
      args.layout,
      KeyForm<T>{{args.p.as<T>()}, {args.dy, heads}, {args.dv, heads}, 1.0f});
}

}  // namespace

EA_RUN_CUDA(AttentionScores, attention_scores_of, q)
EA_RUN_CUDA(AttentionScoresBackward, attention_scores_backward_of, q)
EA_RUN_CUDA(AttentionContext, attention_context_of, p)
EA_RUN_CUDA(AttentionContextBackward, attention_context_backward_of, p)

}  // namespace ea::cuda
