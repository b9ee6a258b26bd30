// Settings and wiring of the body.
#include "models/series.h"

#include <cmath>

#include "models/branch_options.h"
#include "ops/arithmetic.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Bound of initial position embeddings, as in the released code.
constexpr double kPositionBound = 0.02;
constexpr int kLayersPerBlock = 2;
// The limit of conv1d; no series is longer.
constexpr std::int64_t kMaxDilation = std::int64_t{1} << 30;

bool chosen(const Options& o, const char* key, const char* otherwise,
            const char* other) {
  const std::string value = o.text(key, otherwise);
  EA_CHECK_AS(ConfigError, value == otherwise || value == other, "config",
              "{} = '{}'; expected {} or {}", key, value, otherwise, other);
  return value == other;
}

AugmentedLayerConfig layer_config(const SeriesSizes& s, DType dtype) {
  AugmentedLayerConfig c;
  c.attention = AttentionConfig::of(s.hidden, s.heads, s.inner / s.heads);
  c.attention.place.count = kLayersPerBlock * static_cast<int>(s.blocks);
  c.attention.dropout = s.attention_dropout;
  c.attention.carry_dropout = s.hidden_dropout;
  c.attention.init = AffineInit::uniform(s.hidden);
  c.attention.dtype = dtype;
  c.convolution_size = s.hidden - s.inner;
  c.kernel_size = s.kernel_size;
  c.causal = s.causal;
  c.intermediate_size = s.intermediate;
  c.activation = s.activation;
  c.hidden_dropout = s.hidden_dropout;
  c.layer_norm = s.layer_norm;
  c.output_projection = !s.released;
  c.convolution_first = s.released;
  return c;
}

// Block b, counted from 0, has the dilation dilation_base^b.
LayerMaker layer_maker(const SeriesSizes& sizes, const ModelConfig& model) {
  return [sizes, config = layer_config(sizes, model.dtype),
          specs = model.attention](int i) mutable {
    config.dilation = 1;
    for (int block = 0; block < i / kLayersPerBlock; ++block) {
      config.dilation *= sizes.dilation_base;
    }
    config.ends_block = i % kLayersPerBlock == kLayersPerBlock - 1;
    const AttentionSpec& spec = config.attention.enter(specs, i);
    return std::make_shared<AugmentedLayer>(
        config,
        sizes.relative ? with_relative(spec, sizes.max_length - 1) : spec);
  };
}

void check_dilations(std::int64_t blocks, std::int64_t base) {
  std::int64_t dilation = 1;
  for (std::int64_t block = 1; block < blocks && base > 1; ++block) {
    EA_CHECK_AS(ConfigError, dilation <= kMaxDilation / base, "config",
                "num_blocks = {} with dilation_base = {}: block {} would have "
                "a dilation above {}; take fewer blocks or a smaller base",
                blocks, base, block, kMaxDilation);
    dilation *= base;
  }
}

}  // namespace

SeriesSizes::SeriesSizes(const Options& o)
    : channels(positive(o, "channels")),
      max_length(positive(o, "max_length")),
      hidden(positive(o, "hidden_size")),
      blocks(positive(o, "num_blocks")),
      heads(positive(o, "num_attention_heads")),
      inner(attention_width(o, 0.25, hidden, heads)),
      intermediate(positive(o, "intermediate_size")),
      kernel_size(positive(o, "kernel_size")),
      dilation_base(positive(o, "dilation_base")),
      num_labels(o.integer("num_labels", 2)),
      num_targets(o.integer("num_targets", 1)),
      classifier_hidden(o.integer("classifier_hidden_size", 0)),
      causal(o.flag("causal", true)),
      layer_norm(chosen(o, "norm", "batch", "layer")),
      learned_positions(!chosen(o, "position", "learned", "none")),
      relative(chosen(o, "relative", "none", "learned")),
      mean_pooling(chosen(o, "pooling", "flatten", "mean")),
      released(o.flag("released_behaviour", false)),
      hidden_dropout(rate(o, "hidden_dropout_prob", 0.1)),
      attention_dropout(
          rate(o, "attention_probs_dropout_prob", released ? 0.0 : 0.1)),
      classifier_dropout(rate(o, "classifier_dropout", hidden_dropout)),
      activation(parse_activation(
          o.text("hidden_act", released ? "leaky_relu" : "relu"))) {
  EA_CHECK_AS(ConfigError, causal || kernel_size % 2 == 1, "config",
              "kernel_size = {} with causal = False: a centred kernel has a "
              "middle, expected an odd number",
              kernel_size);
  check_dilations(blocks, dilation_base);
}

SeriesEmbedding::SeriesEmbedding(const SeriesSizes& s, DType dtype)
    : scale_(std::sqrt(static_cast<double>(s.hidden))),
      projection_(s.channels, s.hidden, dtype, AffineInit::uniform(s.channels)),
      dropout_(s.hidden_dropout) {
  add_child("dropout", dropout_);
  add_child("projection", projection_);
  if (s.learned_positions) {
    positions_ = std::make_unique<Embedding>(s.max_length, s.hidden, dtype,
                                             Init::uniform(kPositionBound));
    add_child("positions", *positions_);
  }
}

Var SeriesEmbedding::forward(const PackedSeries& series) const {
  Var x = scale(projection_(series.values), scale_);
  if (positions_) x = add(x, (*positions_)(series.positions, "positions"));
  return dropout_(x);
}

SeriesEncoder::SeriesEncoder(const SeriesSizes& sizes,
                             const ModelConfig& config)
    : sizes_(sizes),
      dtype_(config.dtype),
      embedding_(sizes, config.dtype),
      stack_(kLayersPerBlock * static_cast<int>(sizes.blocks),
             layer_maker(sizes, config)) {
  add_child("embeddings", embedding_);
  add_child("encoder", stack_);
}

EncodedSeries SeriesEncoder::forward(const SeriesInputs& inputs) {
  EncodedSeries out;
  out.series = pack(inputs, {sizes_.channels, sizes_.max_length, sizes_.heads,
                             dtype_, embedding_.device()});
  out.stack = stack_.forward(embedding_.forward(out.series), out.series.packing,
                             inputs.wanted);
  return out;
}

}  // namespace ea
