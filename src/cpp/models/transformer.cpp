// Wiring of encoder and decoder.
#include "models/transformer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "nn/blocks/encoder_layer.h"
#include "ops/arithmetic.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Positions count tokens, not columns, so pack() has nothing to check.
constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

TransformerLayerConfig layer_config(const TransformerSizes& s, DType dtype,
                                    std::int64_t heads, std::int64_t layers,
                                    std::int64_t intermediate) {
  TransformerLayerConfig config;
  config.attention.query_size = s.width;
  config.attention.memory_size = s.width;
  config.attention.heads = heads;
  config.attention.head_key_width = s.width / heads;
  config.attention.head_value_width = s.width / heads;
  config.attention.num_layers = static_cast<int>(layers);
  config.attention.dropout = s.attention_dropout;
  config.attention.init = AffineInit::glorot();
  config.attention.dtype = dtype;
  config.intermediate_size = intermediate;
  config.activation = s.activation;
  config.hidden_dropout = s.dropout;
  config.layer_norm_eps = s.eps;
  config.norm_first = s.norm_first;
  return config;
}

LayerMaker encoder_maker(const TransformerSizes& s, const ModelConfig& model) {
  return [config = layer_config(s, model.dtype, s.encoder_heads,
                                s.encoder_layers, s.encoder_intermediate),
          specs = model.attention](int i) mutable {
    config.attention.layer = i;
    return std::make_shared<EncoderLayer>(
        config, spec_of_layer(specs, i, config.attention.num_layers));
  };
}

const AttentionSpecs& specs_of(const ModelConfig& model, const char* name) {
  const auto it = model.more_attention.find(name);
  EA_CHECK_AS(ConfigError, it != model.more_attention.end(), "transformer",
              "'{}' is missing; expected the specs of that attention", name);
  return it->second;
}

LayerMaker decoder_maker(const TransformerSizes& s, const ModelConfig& model) {
  return [config = layer_config(s, model.dtype, s.decoder_heads,
                                s.decoder_layers, s.decoder_intermediate),
          self = specs_of(model, "decoder_attention"),
          cross = specs_of(model, "cross_attention")](int i) mutable {
    const int n = config.attention.num_layers;
    config.attention.layer = i;
    return std::make_shared<DecoderLayer>(config, spec_of_layer(self, i, n),
                                          spec_of_layer(cross, i, n));
  };
}

void check_heads(std::int64_t width, const char* name, std::int64_t heads) {
  EA_CHECK_AS(ConfigError, width % heads == 0, "config",
              "d_model {} is not a multiple of {} {}", width, name, heads);
}

// Embeddings of words have variance 1 / width, and are multiplied by its root.
Init word_init(std::int64_t width) {
  return Init::normal(1.0 / std::sqrt(static_cast<double>(width)));
}

}  // namespace

TransformerSizes::TransformerSizes(const Options& o)
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

TransformerSide::TransformerSide(const TransformerSizes& s, DType dtype,
                                 int num_layers, const LayerMaker& make_layer)
    : scale_(s.scaled_words ? std::sqrt(static_cast<double>(s.width)) : 1.0),
      positions_(s.width, dtype),
      dropout_(s.dropout),
      stack_(num_layers, make_layer) {
  add_child("embeddings.dropout", dropout_);
  add_child("", stack_);
  if (!s.norm_first) return;
  norm_ = std::make_unique<LayerNorm>(s.width, s.eps, dtype);
  add_child("LayerNorm", *norm_);
}

StackOutput TransformerSide::forward(const Embedding& words,
                                     const PackedText& text,
                                     const char* ids_name, const Wanted& wanted,
                                     const Tokens& memory) {
  const Var tokens = scale(words(text.input_ids, ids_name), scale_);
  const Var places = positions_(*text.packing, tokens.device());
  return stack_.forward(dropout_(add(tokens, places)), text.packing, wanted, {},
                        norm_.get(), memory);
}

Var TransformerSide::step(const Embedding& words, const Tensor& ids,
                          std::int64_t position,
                          std::vector<LayerCache>& caches) {
  const Var tokens = scale(words(ids, "ids"), scale_);
  return stack_.step(add(tokens, positions_.at(position, tokens.device())),
                     caches, norm_.get());
}

TransformerBody::TransformerBody(const TransformerSizes& s,
                                 const ModelConfig& config)
    : sizes_(s),
      source_words_(s.source_vocab, s.width, config.dtype, word_init(s.width),
                    s.padding),
      encoder_(s, config.dtype, static_cast<int>(s.encoder_layers),
               encoder_maker(s, config)),
      decoder_(s, config.dtype, static_cast<int>(s.decoder_layers),
               decoder_maker(s, config)) {
  if (s.shared_words) {
    add_child("embeddings.word_embeddings", source_words_);
  } else {
    target_words_ = std::make_unique<Embedding>(
        s.target_vocab, s.width, config.dtype, word_init(s.width), s.padding);
    add_child("encoder.embeddings.word_embeddings", source_words_);
    add_child("decoder.embeddings.word_embeddings", *target_words_);
  }
  add_child("encoder", encoder_);
  add_child("decoder", decoder_);
}

PackedText TransformerBody::packed(const TextInputs& inputs,
                                   std::int64_t heads) const {
  const PackedText text = pack(inputs, heads, {kNoLimit});
  const std::int64_t longest = text.packing->longest_query();
  EA_CHECK_AS(InputError, longest <= sizes_.positions, "forward",
              "{} has a sequence of {} tokens, this model takes {} "
              "(max_position_embeddings); pass truncation=True and "
              "max_length={} to the tokenizer",
              inputs.named("input_ids"), longest, sizes_.positions,
              sizes_.positions);
  return text;
}

PackedText TransformerBody::packed_source(const TextInputs& source) const {
  PackedText text = packed(source, sizes_.encoder_heads);
  check_ids(text, "input_ids", text.input_ids, sizes_.source_vocab,
            "vocab_size");
  return text;
}

EncodedPair TransformerBody::forward(const TextInputs& source,
                                     const TextInputs& target) {
  EncodedPair out;
  out.source = packed_source(source);
  out.target = packed(target, sizes_.decoder_heads);
  const std::int64_t sources = out.source.packing->sequences();
  const std::int64_t targets = out.target.packing->sequences();
  EA_CHECK(sources == targets, "forward",
           "{} sources and {} targets; expected one target for each source",
           sources, targets);
  check_ids(out.target, "decoder_input_ids", out.target.input_ids,
            sizes_.target_vocab, "decoder_vocab_size");
  out.encoder = encoder_.forward(source_words_, out.source, "input_ids",
                                 source.wanted, {});
  out.decoder =
      decoder_.forward(target_table(), out.target, "decoder_input_ids",
                       target.wanted, {out.encoder.last, out.source.packing});
  return out;
}

Tokens TransformerBody::encode(const TextInputs& source) {
  const PackedText text = packed_source(source);
  return {encoder_.forward(source_words_, text, "input_ids", {}, {}).last,
          text.packing};
}

Var TransformerBody::decode(const Tensor& ids,
                            const std::vector<std::int64_t>& offsets,
                            const Tokens& memory) {
  PackedText text;
  text.packing = std::make_shared<const Packing>(sizes_.decoder_heads, offsets);
  text.input_ids = ids;
  return decoder_.forward(target_table(), text, "ids", {}, memory).last;
}

std::vector<LayerCache> TransformerBody::start(const Tokens& memory) const {
  const std::vector<std::int64_t> self = kept_rows(false).value();
  const std::vector<std::int64_t> cross = kept_rows(true).value();
  std::vector<LayerCache> caches;
  for (const DecoderLayer* layer : decoder_layers()) {
    const std::size_t i = caches.size();
    caches.push_back(layer->over(memory, self[i], cross[i]));
  }
  return caches;
}

Var TransformerBody::step(const Tensor& ids, std::int64_t position,
                          std::vector<LayerCache>& caches) {
  return decoder_.step(target_table(), ids, position, caches);
}

std::vector<const DecoderLayer*> TransformerBody::decoder_layers() const {
  std::vector<const DecoderLayer*> layers;
  for (const std::shared_ptr<Layer>& layer : decoder_.stack().layers()) {
    layers.push_back(&dynamic_cast<const DecoderLayer&>(*layer));
  }
  return layers;
}

// A row of a map depends on the rows that its layer reaches back to, and where
// maps are carried, on what the layers below reach back to from there.
std::optional<std::vector<std::int64_t>> TransformerBody::kept_rows(
    bool cross) const {
  std::vector<std::int64_t> rows;
  bool carried = false;
  for (const DecoderLayer* layer : decoder_layers()) {
    const Attention& attention = cross ? layer->cross() : layer->self();
    const std::optional<std::int64_t> own = attention.reach_back();
    if (!own) return {};
    rows.push_back(*own);
    carried |= attention.takes_previous();
  }
  if (carried) {
    const auto sum = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
    std::fill(rows.begin(), rows.end(), sum);
  }
  return rows;
}

bool TransformerBody::can_cache() const {
  return kept_rows(false) && kept_rows(true);
}

bool TransformerBody::reads_later_targets() const {
  for (const DecoderLayer* layer : decoder_layers()) {
    if (layer->cross().reads_later_queries()) return true;
  }
  return false;
}

}  // namespace ea
