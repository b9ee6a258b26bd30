// Batch normalisation over packed tokens (Ioffe and Szegedy, 2015).
#pragma once

#include "autograd/var.h"

namespace ea {

// Running averages of the training statistics: [channels], float32 (float64 for
// float64 inputs), updated in place. Either both are given or neither.
struct RunningStatistics {
  Var mean, variance;
};

// y = (x - mean) / sqrt(variance + eps) * weight + bias + residual, or max(0,
// that sum) with `rectify`; residual may be undefined. x [tokens, channels] or
// images [n, height, width, channels]; packed rows contain only tokens, so
// padding never counts.
// training: uses the mean and the (biased) variance of the batch, which needs
// at least two tokens, and moves the running statistics towards them by
// `momentum`. The running variance uses the unbiased variance, as PyTorch does.
// The update happens once even if recompute() runs the op twice. Evaluation
// uses the running statistics, which must be given.
Var batch_norm(const Var& x, const Var& weight, const Var& bias,
               const RunningStatistics& running, bool training, double momentum,
               double eps, const Var& residual = {}, bool rectify = false);

// Batch norm in evaluation as scale x + shift, both [channels] in the type of
// the statistics. CPU only, without gradient. Throws InputError if a shift is
// not finite.
struct ChannelMap {
  Tensor scale, shift;
};
ChannelMap channel_map(const Var& weight, const Var& bias,
                       const RunningStatistics& running, double eps);

}  // namespace ea
