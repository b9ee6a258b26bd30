// Settings of families whose layers have attention beside a convolution.
#pragma once

#include "nn/attention/spec.h"
#include "nn/options.h"

namespace ea {

// The features that attention computes: attention_ratio (or `otherwise`) of
// `hidden`. Throws ConfigError unless the heads divide them.
std::int64_t attention_width(const Options& options, double otherwise,
                             std::int64_t hidden, std::int64_t heads);

// `relative` = "learned", a short form of the bias slot: relative positions up
// to `max_distance`. Throws ConfigError if the spec has a bias.
AttentionSpec with_relative(const AttentionSpec& given,
                            std::int64_t max_distance);

}  // namespace ea
