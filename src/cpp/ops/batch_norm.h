// Batch normalisation over packed tokens (Ioffe and Szegedy, 2015).
#pragma once

#include "autograd/var.h"

namespace ea {

// Averages of the statistics seen in training: [channels], float32 (float64 for
// float64 inputs), changed in place. Both or neither.
struct RunningStatistics {
  Var mean, variance;
};

// y = (x - mean) / sqrt(variance + eps) * weight + bias + residual, or
// max(that, 0) with `rectify`; residual may be undefined. x [tokens, channels],
// or images [n, height, width, channels]; packed rows hold tokens alone, so
// that no padding counts. training: mean and (biased) variance are the batch's,
// which needs two tokens, and the running ones move towards them by `momentum`,
// the variance to the unbiased one, as PyTorch does; once, also where
// recompute() runs it twice. Otherwise the running statistics are used, which
// must be given.
Var batch_norm(const Var& x, const Var& weight, const Var& bias,
               const RunningStatistics& running, bool training, double momentum,
               double eps, const Var& residual = {}, bool rectify = false);

// A norm in evaluation as scale x + shift, both [channels] of the statistics'
// type; without a gradient, on the CPU. Throws InputError if a shift is not
// finite.
struct ChannelMap {
  Tensor scale, shift;
};
ChannelMap channel_map(const Var& weight, const Var& bias,
                       const RunningStatistics& running, double eps);

}  // namespace ea
