// The body: stem, stages, and the chains of their attention layers.
#include "models/resnet.h"

#include <utility>
#include <vector>

#include "runtime/check.h"

namespace ea {

namespace {

bool is_bottleneck(const Options& o) {
  const std::string type = o.text("layer_type", "bottleneck");
  EA_CHECK_AS(ConfigError, type == "bottleneck" || type == "basic", "config",
              "layer_type = '{}'; expected bottleneck or basic", type);
  return type == "bottleneck";
}

// Returns the length of an axis after a convolution or pooling of stride 2.
std::int64_t half(std::int64_t side) { return (side + 1) / 2; }

// Returns the sites of all attention layers; chains continue while maps keep
// their shape.
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
  number_chains(sites);
  return sites;
}

}  // namespace

ResNetSizes::ResNetSizes(const Options& o, bool augmented)
    : channels(positive(o, "num_channels")),
      embedding(positive(o, "embedding_size")),
      hidden(whole_numbers(o, "hidden_sizes")),
      depths(whole_numbers(o, "depths")),
      bottleneck(is_bottleneck(o)),
      stride_in_first_stage(o.flag("downsample_in_first_stage", false)),
      stride_first(o.flag("downsample_in_bottleneck", false)),
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
            beside(*sizes_.attention, sites[site], from, block.inner(),
                   spec_of_layer(config.attention, static_cast<int>(site),
                                 static_cast<int>(sites.size())),
                   dtype_));
      }
      blocks.push_back(std::make_shared<ResidualBlock>(block));
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
  MapChain chain(inputs.wanted, stages_);
  Var x = halved_by_maximum(stem_.forward(channels_last(pixels), chain));
  if (contains(wanted, 0)) out.stages[0] = x;
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    for (const auto& block : stages_[stage]) {
      std::vector<Var> last;  // moved, so that the block may reuse its memory
      last.push_back(std::move(x));
      x = chain.run(block, std::move(last));
    }
    const int index = static_cast<int>(stage) + 1;
    if (contains(wanted, index)) out.stages[index] = x;
  }
  out.last = x;
  out.maps = chain.kept();
  return out;
}

namespace {

std::unique_ptr<Model> make_resnet(const ModelConfig& config, bool augmented) {
  return pixel_model("resnet",
                     std::make_unique<ResNetBody>(
                         ResNetSizes(config.options, augmented), config),
                     config);
}

const RegisterModel kResNet("resnet", {image_input_specs(),
                                       [](const ModelConfig& config) {
                                         return make_resnet(config, false);
                                       }});
const RegisterModel kAAResNet("aa_resnet", {image_input_specs(),
                                            [](const ModelConfig& config) {
                                              return make_resnet(config, true);
                                            }});

}  // namespace

}  // namespace ea
