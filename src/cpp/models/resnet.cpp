// The body: stem, stages, and the chains of their attention layers.
#include "models/resnet.h"

#include <algorithm>
#include <cmath>

#include "runtime/check.h"

namespace ea {

namespace {

std::vector<std::int64_t> whole_list(const Options& o, const char* key) {
  std::vector<std::int64_t> all;
  for (const double value : o.numbers(key)) {
    EA_CHECK_AS(ConfigError, value >= 1 && value == std::floor(value), "config",
                "{} has {}; expected whole numbers, 1 or more", key, value);
    all.push_back(static_cast<std::int64_t>(value));
  }
  return all;
}

bool is_bottleneck(const Options& o) {
  const std::string type = o.text("layer_type", "bottleneck");
  EA_CHECK_AS(ConfigError, type == "bottleneck" || type == "basic", "config",
              "layer_type = '{}'; expected bottleneck or basic", type);
  return type == "bottleneck";
}

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

// The side of an axis behind a convolution or a pool of stride 2.
std::int64_t half(std::int64_t side) { return (side + 1) / 2; }

// One attention layer of the whole network.
struct MapSite {
  std::int64_t height, width;
  int layer = 0, num_layers = 1;  // in its chain
  bool halved = false;
};

// All attention layers in order: a chain goes on while maps keep their shape.
std::vector<MapSite> map_sites(const ResNetSizes& s) {
  std::vector<MapSite> sites;
  if (!s.attention) return sites;
  std::int64_t height = half(half(s.attention->height));
  std::int64_t width = half(half(s.attention->width));
  for (std::size_t stage = 0; stage < s.depths.size(); ++stage) {
    if (stage > 0 || s.stride_in_first_stage) {
      height = half(height);
      width = half(width);
    }
    if (stage == 0) continue;
    const bool halved = stage == 1;
    EA_CHECK_AS(ConfigError, !halved || (height % 2 == 0 && width % 2 == 0),
                "config",
                "image_size = {} x {} (height x width): the second stage has "
                "{} x {} pixels, expected even numbers, for its attention has "
                "half of them; take a multiple of 16",
                s.attention->height, s.attention->width, height, width);
    MapSite site{height, width, 0, 1, halved};
    if (halved) {
      site.height /= 2;
      site.width /= 2;
    }
    const std::int64_t convolutions = s.bottleneck ? 1 : 2;
    sites.insert(sites.end(),
                 static_cast<std::size_t>(s.depths[stage] * convolutions),
                 site);
  }
  std::size_t first = 0;
  for (std::size_t i = 0; i < sites.size(); ++i) {
    if (sites[i].height != sites[first].height ||
        sites[i].width != sites[first].width) {
      first = i;
    }
    sites[i].layer = static_cast<int>(i - first);
    for (std::size_t j = first; j <= i; ++j) {
      sites[j].num_layers = static_cast<int>(i - first + 1);
    }
  }
  return sites;
}

// Relative positions of the site's pixels, which the caller cannot know.
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

BesideConvolution beside(const ResNetSizes& s, const MapSite& site,
                         std::int64_t in, std::int64_t out,
                         const AttentionSpec& spec, DType dtype) {
  const AugmentedSizes& a = *s.attention;
  AttentionConfig config;
  config.query_size = in;
  config.memory_size = in;
  config.heads = a.heads;
  config.head_key_width = a.key_size(out) / a.heads;
  config.head_value_width = a.value_size(out) / a.heads;
  config.dropout = a.attention_dropout;
  config.dtype = dtype;
  config.layer = site.layer;
  config.num_layers = site.num_layers;
  return {config, with_positions(spec, site), site.halved};
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

ResNetSizes::ResNetSizes(const Options& o, bool augmented)
    : channels(positive(o, "num_channels")),
      embedding(positive(o, "embedding_size")),
      hidden(whole_list(o, "hidden_sizes")),
      depths(whole_list(o, "depths")),
      bottleneck(is_bottleneck(o)),
      stride_in_first_stage(o.flag("downsample_in_first_stage", false)),
      stride_first(o.flag("downsample_in_bottleneck", false)),
      num_labels(o.integer("num_labels", 2)),
      activation(parse_activation(o.text("hidden_act", "relu"))) {
  EA_CHECK_AS(ConfigError, hidden.size() == depths.size() && !hidden.empty(),
              "config",
              "hidden_sizes has {} numbers, depths {}; expected one for each "
              "stage",
              hidden.size(), depths.size());
  for (const std::int64_t size : hidden) {
    EA_CHECK_AS(ConfigError, !bottleneck || size % 4 == 0, "config",
                "hidden_sizes has {}; expected multiples of 4, for the middle "
                "of a bottleneck has a quarter",
                size);
  }
  EA_CHECK_AS(ConfigError, num_labels > 0, "config",
              "num_labels = {} must be positive", num_labels);
  if (!augmented) return;
  norm.momentum = o.number("batch_norm_momentum", norm.momentum);
  attention.emplace(o);
  EA_CHECK_AS(ConfigError, hidden.size() >= 2, "config",
              "hidden_sizes has one stage; expected two or more: the first has "
              "no attention");
}

ResNetBody::ResNetBody(const ResNetSizes& sizes, const ModelConfig& config)
    : sizes_(sizes),
      dtype_(config.dtype),
      stem_({{sizes.channels, sizes.embedding, 7, 2, config.dtype},
             sizes.norm,
             sizes.activation,
             {}}) {
  add_child("embedder.embedder", stem_);
  add_stages(config);
}

void ResNetBody::add_stages(const ModelConfig& config) {
  const std::vector<MapSite> sites = map_sites(sizes_);
  std::size_t site = 0;
  std::int64_t in = sizes_.embedding;
  for (std::size_t stage = 0; stage < sizes_.depths.size(); ++stage) {
    auto& blocks = stages_.emplace_back();
    for (std::int64_t i = 0; i < sizes_.depths[stage]; ++i) {
      const bool strided =
          i == 0 && (stage > 0 || sizes_.stride_in_first_stage);
      ResidualBlockConfig block{in,
                                sizes_.hidden[stage],
                                strided ? 2 : 1,
                                sizes_.bottleneck,
                                sizes_.stride_first,
                                sizes_.activation,
                                sizes_.norm,
                                {},
                                dtype_};
      for (std::size_t k = 0;
           sizes_.attention && stage > 0 && k < block.wide_convolutions();
           ++k, ++site) {
        const std::int64_t from =
            sizes_.bottleneck || k > 0 ? block.inner() : in;
        block.beside.push_back(
            beside(sizes_, sites[site], from, block.inner(),
                   spec_of_layer(config.attention, static_cast<int>(site),
                                 static_cast<int>(sites.size())),
                   dtype_));
      }
      blocks.push_back(std::make_unique<ResidualBlock>(block));
      add_child("encoder.stages." + std::to_string(stage) + ".layers." +
                    std::to_string(i),
                *blocks.back());
      in = sizes_.hidden[stage];
    }
  }
}

EncodedPixels ResNetBody::forward(const ImageInputs& inputs) {
  ImageLimits limits{
      .channels = sizes_.channels, .dtype = dtype_, .device = stem_.device()};
  if (sizes_.attention) {
    limits.height = sizes_.attention->height;
    limits.width = sizes_.attention->width;
  }
  const Var pixels = checked_pixels(inputs, limits);
  const std::vector<int>& wanted = inputs.wanted.hidden_states;
  EncodedPixels out;
  MapChain chain(inputs.wanted);
  const Normed images{channels_last(pixels), nullptr};
  Var x = halved_by_maximum(stem_.forward(images, chain).y);
  if (contains(wanted, 0)) out.stages[0] = x;
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    for (const auto& block : stages_[stage]) x = block->forward(x, chain);
    const int index = static_cast<int>(stage) + 1;
    if (contains(wanted, index)) out.stages[index] = x;
  }
  out.last = x;
  out.maps = chain.kept();
  return out;
}

}  // namespace ea
