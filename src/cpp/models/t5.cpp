// T5 (Raffel et al., JMLR 2020) and T5 v1.1: options and names of Hugging
// Face's checkpoints. Relative positions and the scale of scores are slots of
// the attention specs.
#include <cmath>

#include "models/transformer_tasks.h"
#include "nn/blocks/encoder_layer.h"
#include "runtime/check.h"

namespace ea {

namespace {

constexpr ProjectionNames kProjections{"q", "k", "v"};

// Returns the names within a layer; `last` is the feed-forward's sublayer.
LayerNames names_of(const char* last, bool gated) {
  return {
      {"layer.0", "SelfAttention", "SelfAttention.o", "layer_norm", "dropout"},
      {"layer.1", "EncDecAttention", "EncDecAttention.o", "layer_norm",
       "dropout"},
      {last, gated ? "DenseReluDense.wi_1" : "DenseReluDense.wi",
       "DenseReluDense.wi_0", "DenseReluDense.wo", "layer_norm", "dropout",
       "DenseReluDense.dropout"}};
}

struct T5Settings {
  explicit T5Settings(const Options& o)
      : vocab(positive(o, "vocab_size")),
        width(positive(o, "d_model")),
        head_width(positive(o, "d_kv")),
        intermediate(positive(o, "d_ff")),
        heads(positive(o, "num_heads")),
        encoder_layers(static_cast<int>(positive(o, "num_layers"))),
        decoder_layers(
            static_cast<int>(o.integer("num_decoder_layers", encoder_layers))),
        dropout(rate(o, "dropout_rate", 0.1)),
        eps(o.number("layer_norm_epsilon", 1e-6)),
        factor(o.number("initializer_factor", 1.0)),
        activation(parse_activation(o.text("dense_act_fn", "relu"),
                                    "feed_forward_proj")),
        gated(o.flag("is_gated_act", false)),
        tied(o.flag("tie_word_embeddings", true)),
        scaled(o.flag("scale_decoder_outputs", tied)) {}

  std::int64_t vocab, width, head_width, intermediate, heads;
  int encoder_layers, decoder_layers;
  double dropout, eps, factor;
  Activation activation;
  bool gated, tied, scaled;

  // Initial values of an affine map that keeps the variance of its inputs.
  AffineInit init(std::int64_t inputs) const {
    return AffineInit::normal(factor / std::sqrt(static_cast<double>(inputs)));
  }
  NormConfig norm() const { return {NormKind::rms, eps, factor}; }
};

// Initial query weights are smaller by the root of a head's width, since scores
// have no scale.
TransformerLayerConfig layer_config(const T5Settings& s, DType dtype,
                                    int layers, const char* feed_forward) {
  TransformerLayerConfig config;
  AttentionConfig& attention = config.attention;
  attention = AttentionConfig::of(s.width, s.heads, s.head_width);
  attention.dropout = s.dropout;
  attention.biased = false;
  attention.init = s.init(s.width);
  attention.query_init = s.init(s.width * s.head_width);
  attention.names = kProjections;
  attention.dtype = dtype;
  attention.place.count = layers;
  config.intermediate_size = s.intermediate;
  config.activation = s.activation;
  config.gated = s.gated;
  config.hidden_dropout = s.dropout;
  config.activation_dropout = s.dropout;
  config.norm = s.norm();
  config.norm_first = true;
  config.inits = LayerInits{s.init(attention.value_size()), s.init(s.width),
                            s.init(s.intermediate)};
  config.names = names_of(feed_forward, s.gated);
  return config;
}

TransformerDesign t5_design(const ModelConfig& model) {
  const T5Settings s(model.options);
  TransformerDesign design;
  design.source_vocab = s.vocab;
  design.target_vocab = s.vocab;
  design.width = s.width;
  design.encoder_heads = s.heads;
  design.decoder_heads = s.heads;
  design.padding = model.options.integer("pad_token_id", 0);
  design.start = model.options.integer("decoder_start_token_id", 0);
  design.encoder = {
      s.encoder_layers,
      encoder_maker(layer_config(s, model.dtype, s.encoder_layers, "layer.1"),
                    model.attention)};
  design.decoder = {
      s.decoder_layers,
      decoder_maker(layer_config(s, model.dtype, s.decoder_layers, "layer.2"),
                    specs_of(model, "decoder_attention"),
                    specs_of(model, "cross_attention"))};
  design.word_init = Init::normal(s.factor);
  design.dropout = s.dropout;
  design.dropout_last = true;
  design.last_norm = s.norm();
  design.tied_output = s.tied;
  if (s.scaled) {
    design.output_scale = 1.0 / std::sqrt(static_cast<double>(s.width));
  }
  design.output_init = Init::normal(s.factor);
  design.names = {"", "shared", "block", "final_layer_norm"};
  return design;
}

std::unique_ptr<Model> make_t5(const ModelConfig& config) {
  return make_transformer(config, t5_design(config));
}

const RegisterModel kT5("t5", {transformer_input_specs(), make_t5});

}  // namespace

}  // namespace ea
