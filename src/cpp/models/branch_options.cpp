// Checks attention's share of the features and fills the bias slot.
#include "models/branch_options.h"

#include <cmath>
#include <string>

#include "runtime/check.h"

namespace ea {

std::int64_t attention_width(const Options& o, double otherwise,
                             std::int64_t hidden, std::int64_t heads) {
  const double ratio = o.number("attention_ratio", otherwise);
  EA_CHECK_AS(ConfigError, ratio >= 0.0 && ratio <= 1.0, "config",
              "attention_ratio = {} is outside [0, 1]", ratio);
  const double width = ratio * static_cast<double>(hidden);
  const auto whole = static_cast<std::int64_t>(std::llround(width));
  EA_CHECK_AS(
      ConfigError,
      std::abs(width - static_cast<double>(whole)) < 1e-6 && whole % heads == 0,
      "config",
      "attention_ratio {} of hidden_size {} is a width of {}; expected "
      "a multiple of num_attention_heads {}",
      ratio, hidden, width, heads);
  return whole;
}

AttentionSpec with_relative(const AttentionSpec& given,
                            std::int64_t max_distance) {
  AttentionSpec spec = given;
  EA_CHECK_AS(ConfigError, !spec.bias, "config",
              "relative = 'learned' with a bias in attention; leave one of "
              "the two out");
  Options options;
  options.set("kind", std::string("relative"));
  options.set("max_distance", max_distance);
  spec.bias = slot_maker<Bias>(options);
  return spec;
}

}  // namespace ea
