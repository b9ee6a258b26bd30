// Networks for small images: convolution in parallel with attention where maps
// are small, two feed-forwards, dense connections ("Predictive Attention
// Transformer", Section 4.2.1 and Appendix B; dense connections: Huang et al.,
// CVPR 2017).
#include <algorithm>
#include <optional>

#include "models/pixel_attention.h"
#include "models/pixel_tasks.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"

namespace ea {

namespace {

struct CifarSizes {
  explicit CifarSizes(const Options& options);

  std::int64_t channels, attention_side, feed_forwards;
  std::vector<std::int64_t> hidden, depths;  // per stage
  double feed_forward_ratio, convolution_dropout, hidden_dropout;
  bool dense;
  Activation activation;
  ImageNormConfig norm;
  AugmentedSizes attention;

  // Number of inner features of a feed-forward.
  std::int64_t inner(std::int64_t channels) const {
    const double wanted = feed_forward_ratio * static_cast<double>(channels);
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(wanted));
  }
  // Size of the maps of a stage, in pixels.
  MapSite site(std::size_t stage) const {
    return {attention.height >> stage, attention.width >> stage};
  }
  bool attends(std::size_t stage) const {
    const MapSite at = site(stage);
    return std::max(at.height, at.width) <= attention_side;
  }
};

CifarSizes::CifarSizes(const Options& o)
    : channels(positive(o, "num_channels")),
      attention_side(o.integer("attention_side")),
      feed_forwards(o.integer("num_feed_forwards")),
      hidden(whole_numbers(o, "hidden_sizes")),
      depths(whole_numbers(o, "depths")),
      feed_forward_ratio(o.number("feed_forward_ratio")),
      convolution_dropout(rate(o, "conv_dropout_prob", 0.0)),
      hidden_dropout(rate(o, "hidden_dropout_prob", 0.0)),
      dense(o.flag("dense_connections")),
      activation(parse_activation(o.text("hidden_act", "relu"))),
      attention(o) {
  EA_CHECK_AS(ConfigError, hidden.size() == depths.size() && !hidden.empty(),
              "config",
              "hidden_sizes has {} numbers, depths {}; expected one for each "
              "stage",
              hidden.size(), depths.size());
  const std::int64_t least = std::int64_t{1} << (hidden.size() - 1);
  EA_CHECK_AS(
      ConfigError,
      attention.height % least == 0 && attention.width % least == 0, "config",
      "image_size = {} x {} (height x width): expected multiples of {}, "
      "for each of {} stages after the first has half the pixels of a "
      "side",
      attention.height, attention.width, least, hidden.size() - 1);
  norm.momentum = o.number("batch_norm_momentum", norm.momentum);
}

// Returns the sites of all attention layers, in order.
std::vector<MapSite> map_sites(const CifarSizes& s) {
  std::vector<MapSite> sites;
  for (std::size_t stage = 0; stage < s.depths.size(); ++stage) {
    if (!s.attends(stage)) continue;
    sites.insert(sites.end(), static_cast<std::size_t>(s.depths[stage]),
                 s.site(stage));
  }
  number_chains(sites);
  return sites;
}

// y = x + dropout(norm(W_2 act(norm(W_1 x))))
class PixelFeedForward : public Module {
 public:
  PixelFeedForward(std::int64_t width, const CifarSizes& s, DType dtype)
      : intermediate_(
            {{width, s.inner(width), 1, 1, dtype}, s.norm, s.activation, {}}),
        output_({{s.inner(width), width, 1, 1, dtype}, s.norm, {}, {}}),
        dropout_(s.hidden_dropout) {
    add_child("intermediate", intermediate_);
    add_child("output", output_);
    add_child("dropout", dropout_);
  }
  Var forward(const Var& x, MapChain& chain) {
    const Var inner = intermediate_.forward(x, chain);
    return add(x, dropout_(output_.forward(inner, chain)));
  }

 private:
  ConvLayer intermediate_, output_;
  Dropout dropout_;
};

// x = act(norm(W_D concat(earlier))), or earlier.back() if not dense;
// h = x + dropout(act(norm(concat(conv(x), W_O attention(x))))),
// followed by the feed-forwards.
class CifarBlock : public ImageBlock {
 public:
  CifarBlock(std::int64_t width, std::int64_t earlier, const CifarSizes& s,
             std::optional<BesideConvolution> beside, DType dtype)
      : mixing_({{width, width, 3, 1, dtype},
                 s.norm,
                 s.activation,
                 std::move(beside)}),
        dropout_(s.convolution_dropout) {
    if (earlier > 1) {
      gathering_ = std::make_unique<ConvLayer>(ConvLayerConfig{
          {earlier * width, width, 1, 1, dtype}, s.norm, s.activation, {}});
      add_child("gathering", *gathering_);
    }
    add_child("mixing", mixing_);
    add_child("dropout", dropout_);
    for (std::int64_t i = 0; i < s.feed_forwards; ++i) {
      feed_forwards_.push_back(
          std::make_unique<PixelFeedForward>(width, s, dtype));
      add_child("feed_forward." + std::to_string(i), *feed_forwards_.back());
    }
  }
  Var forward(std::vector<Var> earlier, MapChain& chain) override {
    Var x = earlier.back();
    if (gathering_) {
      x = gathering_->forward(concat(earlier, 3), chain);
    }
    Var h = add(x, dropout_(mixing_.forward(x, chain)));
    for (const auto& one : feed_forwards_) h = one->forward(h, chain);
    return h;
  }
  bool takes_previous() const override { return mixing_.takes_previous(); }

 private:
  std::unique_ptr<ConvLayer> gathering_;
  ConvLayer mixing_;
  Dropout dropout_;
  std::vector<std::unique_ptr<PixelFeedForward>> feed_forwards_;
};

class CifarNetBody final : public PixelBody {
 public:
  CifarNetBody(const CifarSizes& sizes, const ModelConfig& config)
      : sizes_(sizes),
        dtype_(config.dtype),
        stem_({{sizes.channels, sizes.hidden.front(), 3, 1, config.dtype},
               sizes.norm,
               sizes.activation,
               {}}) {
    add_child("embedder", stem_);
    add_stages(config);
  }
  EncodedPixels forward(const ImageInputs& inputs) override;
  std::int64_t width() const override { return sizes_.hidden.back(); }

 private:
  void add_stages(const ModelConfig& config);
  // Number of a stage's states that the next layer reads.
  std::int64_t read(std::int64_t known) const {
    return sizes_.dense ? known : 1;
  }

  CifarSizes sizes_;
  DType dtype_;
  ConvLayer stem_;
  std::vector<std::unique_ptr<ConvLayer>> widening_;  // to stage i + 1
  ImageStages stages_;
};

void CifarNetBody::add_stages(const ModelConfig& config) {
  const std::vector<MapSite> sites = map_sites(sizes_);
  std::size_t site = 0;
  for (std::size_t stage = 0; stage < sizes_.depths.size(); ++stage) {
    const std::int64_t width = sizes_.hidden[stage];
    const std::string at = "encoder.stages." + std::to_string(stage);
    if (stage > 0) {
      const std::int64_t in =
          read(sizes_.depths[stage - 1] + 1) * sizes_.hidden[stage - 1];
      widening_.push_back(std::make_unique<ConvLayer>(ConvLayerConfig{
          {in, width, 1, 1, dtype_}, sizes_.norm, sizes_.activation, {}}));
      add_child(at + ".widening", *widening_.back());
    }
    auto& blocks = stages_.emplace_back();
    for (std::int64_t i = 0; i < sizes_.depths[stage]; ++i) {
      std::optional<BesideConvolution> attention;
      if (sizes_.attends(stage)) {
        attention =
            beside(sizes_.attention, sites[site], width, width,
                   spec_of_layer(config.attention, static_cast<int>(site),
                                 static_cast<int>(sites.size())),
                   dtype_);
        ++site;
      }
      blocks.push_back(std::make_shared<CifarBlock>(
          width, read(i + 1), sizes_, std::move(attention), dtype_));
      add_child(at + ".layers." + std::to_string(i), *blocks.back());
    }
  }
}

EncodedPixels CifarNetBody::forward(const ImageInputs& inputs) {
  ImageLimits limits{.channels = sizes_.channels,
                     .height = sizes_.attention.height,
                     .width = sizes_.attention.width,
                     .dtype = dtype_,
                     .device = stem_.device()};
  const Var pixels = checked_pixels(inputs, limits);
  const std::vector<int>& wanted = inputs.wanted.hidden_states;
  EncodedPixels out;
  MapChain chain(inputs.wanted, stages_);
  std::vector<Var> known{stem_.forward(channels_last(pixels), chain)};
  if (contains(wanted, 0)) out.stages[0] = known.back();
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    if (stage > 0) {
      const Var all = sizes_.dense ? concat(known, 3) : known.back();
      known = {widening_[stage - 1]->forward(mean_of_fours(all), chain)};
    }
    for (const auto& block : stages_[stage]) {
      const Var y = chain.run(
          block, sizes_.dense ? known : std::vector<Var>{known.back()});
      known.push_back(y);
    }
    const int index = static_cast<int>(stage) + 1;
    if (contains(wanted, index)) out.stages[index] = known.back();
  }
  out.last = known.back();
  out.maps = chain.kept();
  return out;
}

std::unique_ptr<Model> make_cifar_net(const ModelConfig& config) {
  const CifarSizes sizes(config.options);
  return pixel_model("cifar_net", std::make_unique<CifarNetBody>(sizes, config),
                     config);
}

const RegisterModel kCifarNet("cifar_net",
                              {image_input_specs(), make_cifar_net});

}  // namespace

}  // namespace ea
