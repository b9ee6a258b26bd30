// Sizes from the options, and the settings of each layer.
#include "models/pixel_attention.h"

#include <algorithm>

#include "runtime/check.h"

namespace ea {

namespace {

double ratio(const Options& o, const char* key) {
  const double value = o.number(key);
  EA_CHECK_AS(ConfigError, value > 0.0 && value < 1.0, "config",
              "{} = {} is outside (0, 1)", key, value);
  return value;
}

std::int64_t part_of(double share, std::int64_t channels, std::int64_t heads) {
  const auto whole =
      static_cast<std::int64_t>(share * static_cast<double>(channels));
  return whole / heads * heads;
}

// Adds relative positions of the site's pixels, which the caller cannot know.
AttentionSpec with_positions(const AttentionSpec& given, const MapSite& site) {
  EA_CHECK_AS(ConfigError, !given.bias, "config",
              "attention has a bias; expected none: each layer has the "
              "relative positions of its own pixels");
  Options options;
  options.set("kind", std::string("relative_2d"));
  options.set("height", site.height);
  options.set("width", site.width);
  AttentionSpec spec = given;
  spec.bias = slot_maker<Bias>(options);
  return spec;
}

}  // namespace

AugmentedSizes::AugmentedSizes(const Options& o)
    : height(positive(o, "image_height")),
      width(positive(o, "image_width")),
      heads(positive(o, "num_attention_heads")),
      least_key_width(o.integer("min_head_key_width", 0)),
      key_ratio(ratio(o, "key_ratio")),
      value_ratio(ratio(o, "value_ratio")),
      attention_dropout(rate(o, "attention_probs_dropout_prob", 0.0)) {}

std::int64_t AugmentedSizes::key_size(std::int64_t channels) const {
  const std::int64_t size =
      std::max(part_of(key_ratio, channels, heads), heads * least_key_width);
  EA_CHECK_AS(ConfigError, size > 0, "config",
              "key_ratio {} of {} channels is less than a feature for each of "
              "{} heads (num_attention_heads); raise it, or min_head_key_width",
              key_ratio, channels, heads);
  return size;
}

std::int64_t AugmentedSizes::value_size(std::int64_t channels) const {
  const std::int64_t size = part_of(value_ratio, channels, heads);
  EA_CHECK_AS(ConfigError, size > 0, "config",
              "value_ratio {} of {} channels is less than a feature for each "
              "of {} heads (num_attention_heads); raise it, or take fewer "
              "heads",
              value_ratio, channels, heads);
  return size;
}

void number_chains(std::vector<MapSite>& sites) {
  std::size_t first = 0;
  for (std::size_t i = 0; i < sites.size(); ++i) {
    if (sites[i].height != sites[first].height ||
        sites[i].width != sites[first].width) {
      first = i;
    }
    sites[i].layer = static_cast<int>(i - first);
    sites[i].place = {static_cast<int>(i), static_cast<int>(sites.size())};
    for (std::size_t j = first; j <= i; ++j) {
      sites[j].num_layers = static_cast<int>(i - first + 1);
    }
  }
}

BesideConvolution beside(const AugmentedSizes& a, const MapSite& site,
                         std::int64_t in, std::int64_t out,
                         const AttentionSpec& spec, DType dtype) {
  AttentionConfig config =
      AttentionConfig::of(in, a.heads, a.key_size(out) / a.heads);
  config.head_value_width = a.value_size(out) / a.heads;
  config.dropout = a.attention_dropout;
  config.dtype = dtype;
  config.layer = site.layer;
  config.num_layers = site.num_layers;
  config.place = site.place;
  return {config, with_positions(spec, site), site.halved};
}

}  // namespace ea
