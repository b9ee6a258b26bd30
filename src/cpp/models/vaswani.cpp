// The Transformer of Vaswani et al. (NeurIPS 2017): its options.
#include <cmath>

#include "models/transformer_tasks.h"
#include "nn/blocks/encoder_layer.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Checked sizes and rates, read once from the options; named as in Hugging
// Face's encoder-decoder configs.
struct VaswaniSettings {
  explicit VaswaniSettings(const Options& options);
  std::int64_t source_vocab, target_vocab, width, positions;
  std::int64_t encoder_layers, encoder_heads, encoder_intermediate;
  std::int64_t decoder_layers, decoder_heads, decoder_intermediate;
  double dropout, attention_dropout, eps;
  Activation activation;
  std::int64_t padding, start;
  bool norm_first, shared_words, scaled_words, tied_output;
};

void check_heads(std::int64_t width, const char* name, std::int64_t heads) {
  EA_CHECK_AS(ConfigError, width % heads == 0, "config",
              "d_model {} is not a multiple of {} {}", width, name, heads);
}

// Word embeddings have variance 1 / width and are multiplied by its root.
Init word_init(std::int64_t width) {
  return Init::normal(1.0 / std::sqrt(static_cast<double>(width)));
}

VaswaniSettings::VaswaniSettings(const Options& o)
    : source_vocab(positive(o, "vocab_size")),
      target_vocab(o.integer("decoder_vocab_size", source_vocab)),
      width(positive(o, "d_model")),
      positions(positive(o, "max_position_embeddings")),
      encoder_layers(positive(o, "encoder_layers")),
      encoder_heads(positive(o, "encoder_attention_heads")),
      encoder_intermediate(positive(o, "encoder_ffn_dim")),
      decoder_layers(positive(o, "decoder_layers")),
      decoder_heads(positive(o, "decoder_attention_heads")),
      decoder_intermediate(positive(o, "decoder_ffn_dim")),
      dropout(rate(o, "dropout", 0.1)),
      attention_dropout(rate(o, "attention_dropout", 0.0)),
      eps(o.number("layer_norm_eps", 1e-5)),
      activation(parse_activation(o.text("activation_function", "relu"))),
      padding(o.integer("pad_token_id", 0)),
      start(o.integer("decoder_start_token_id", 1)),
      norm_first(o.flag("norm_first", false)),
      shared_words(o.flag("share_encoder_decoder_embeddings", true)),
      scaled_words(o.flag("scale_embedding", true)),
      tied_output(o.flag("tie_word_embeddings", true)) {
  check_heads(width, "encoder_attention_heads", encoder_heads);
  check_heads(width, "decoder_attention_heads", decoder_heads);
  EA_CHECK_AS(ConfigError, !shared_words || source_vocab == target_vocab,
              "config",
              "decoder_vocab_size {} with vocab_size {}; shared embeddings "
              "have one vocabulary: set share_encoder_decoder_embeddings=False",
              target_vocab, source_vocab);
}

TransformerLayerConfig layer_config(const VaswaniSettings& s, DType dtype,
                                    std::int64_t heads, std::int64_t layers,
                                    std::int64_t intermediate) {
  TransformerLayerConfig config;
  config.attention = AttentionConfig::of(s.width, heads, s.width / heads);
  config.attention.place.count = static_cast<int>(layers);
  config.attention.dropout = s.attention_dropout;
  config.attention.init = AffineInit::glorot();
  config.attention.dtype = dtype;
  config.intermediate_size = intermediate;
  config.activation = s.activation;
  config.hidden_dropout = s.dropout;
  config.norm.eps = s.eps;
  config.norm_first = s.norm_first;
  return config;
}

TransformerDesign vaswani_design(const ModelConfig& model) {
  const VaswaniSettings s(model.options);
  const double root = std::sqrt(static_cast<double>(s.width));
  TransformerDesign design;
  design.source_vocab = s.source_vocab;
  design.target_vocab = s.target_vocab;
  design.target_vocab_option = "decoder_vocab_size";
  design.width = s.width;
  design.positions = s.positions;
  design.padding = s.padding;
  design.start = s.start;
  design.encoder_heads = s.encoder_heads;
  design.decoder_heads = s.decoder_heads;
  design.encoder = {
      static_cast<int>(s.encoder_layers),
      encoder_maker(layer_config(s, model.dtype, s.encoder_heads,
                                 s.encoder_layers, s.encoder_intermediate),
                    model.attention)};
  design.decoder = {
      static_cast<int>(s.decoder_layers),
      decoder_maker(layer_config(s, model.dtype, s.decoder_heads,
                                 s.decoder_layers, s.decoder_intermediate),
                    specs_of(model, "decoder_attention"),
                    specs_of(model, "cross_attention"))};
  design.shared_words = s.shared_words;
  design.word_scale = s.scaled_words ? root : 1.0;
  design.word_init = word_init(s.width);
  design.idle_word = s.padding;
  design.sinusoids = true;
  design.dropout = s.dropout;
  if (s.norm_first) design.last_norm = NormConfig{NormKind::layer, s.eps};
  design.tied_output = s.tied_output;
  design.output_init = Init::glorot();
  return design;
}

std::unique_ptr<Model> make_vaswani(const ModelConfig& config) {
  return make_transformer(config, vaswani_design(config));
}

const RegisterModel kTransformer("transformer",
                                 {transformer_input_specs(), make_vaswani});

}  // namespace

}  // namespace ea
