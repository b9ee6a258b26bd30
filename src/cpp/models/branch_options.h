// Options of families whose layers have attention in parallel with a
// convolution.
#pragma once

#include "nn/attention/spec.h"
#include "nn/options.h"

namespace ea {

// Returns the number of features that attention computes: attention_ratio (or
// `otherwise`) of `hidden`. Throws ConfigError unless the heads divide it.
std::int64_t attention_width(const Options& options, double otherwise,
                             std::int64_t hidden, std::int64_t heads);

// Fills the bias slot for the option `relative` = "learned": relative positions
// up to `max_distance`. Throws ConfigError if the spec has a bias.
AttentionSpec with_relative(const AttentionSpec& given,
                            std::int64_t max_distance);

}  // namespace ea
