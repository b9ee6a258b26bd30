// Wiring of the shared body.
#include "models/bert_encoder.h"

#include "ops/arithmetic.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"

namespace ea {

namespace {

TransformerLayerConfig layer_config(const BertSizes& s, DType dtype) {
  TransformerLayerConfig config;
  config.attention = AttentionConfig::of(s.hidden, s.heads, s.hidden / s.heads);
  config.attention.place.count = static_cast<int>(s.layers);
  config.attention.dropout = s.attention_dropout;
  config.attention.init = AffineInit::normal(s.init_std);
  config.attention.dtype = dtype;
  config.intermediate_size = s.intermediate;
  config.activation = s.activation;
  config.hidden_dropout = s.hidden_dropout;
  config.norm.eps = s.eps;
  config.norm_first = s.norm_first;
  return config;
}

// Returns the kept rows, then the first row of each sequence.
Tensor with_first(const Tensor& kept, const Tensor& first) {
  std::vector<std::int64_t> rows(values(kept), values(kept) + kept.numel());
  rows.insert(rows.end(), values(first), values(first) + first.numel());
  return from_values(rows);
}

}  // namespace

BertSizes::BertSizes(const Options& o)
    : vocab(positive(o, "vocab_size")),
      hidden(positive(o, "hidden_size")),
      layers(positive(o, "num_hidden_layers")),
      heads(positive(o, "num_attention_heads")),
      intermediate(positive(o, "intermediate_size")),
      positions(positive(o, "max_position_embeddings")),
      types(positive(o, "type_vocab_size")),
      num_labels(positive(o, "num_labels", 2)),
      classifier_hidden(o.integer("classifier_hidden_size", 0)),
      hidden_dropout(rate(o, "hidden_dropout_prob", 0.1)),
      attention_dropout(rate(o, "attention_probs_dropout_prob", 0.1)),
      classifier_dropout(rate(o, "classifier_dropout", hidden_dropout)),
      eps(o.number("layer_norm_eps", 1e-12)),
      init_std(o.number("initializer_range", 0.02)),
      activation(parse_activation(o.text("hidden_act", "gelu"))),
      pad_token_id(o.integer("pad_token_id", 0)),
      norm_first(o.flag("norm_first", false)) {
  EA_CHECK_AS(ConfigError, hidden % heads == 0, "config",
              "hidden_size {} is not a multiple of num_attention_heads {}",
              hidden, heads);
  EA_CHECK_AS(ConfigError, classifier_hidden >= 0, "config",
              "classifier_hidden_size = {} must be positive",
              classifier_hidden);
}

BertEmbeddings::BertEmbeddings(const BertSizes& s, DType dtype,
                               std::int64_t position_padding)
    : word_(s.vocab, s.hidden, dtype, s.init_std, s.pad_token_id),
      position_(s.positions, s.hidden, dtype, s.init_std, position_padding),
      type_(s.types, s.hidden, dtype, s.init_std),
      norm_(s.hidden, s.eps, dtype),
      dropout_(s.hidden_dropout) {
  add_child("word_embeddings", word_);
  add_child("position_embeddings", position_);
  add_child("token_type_embeddings", type_);
  add_child("LayerNorm", norm_);
  add_child("dropout", dropout_);
}

Var BertEmbeddings::forward(const PackedText& text) {
  const Var words = word_(text.input_ids, "input_ids");
  const Var types = type_(text.token_type_ids, "token_type_ids");
  const Var places = position_(text.position_ids, "position_ids");
  return dropout_(norm_(add(words, types), places));
}

BertEncoder::BertEncoder(const BertSizes& sizes, const ModelConfig& config,
                         bool pooler, std::int64_t padding_id)
    : sizes_(sizes),
      rule_{sizes.positions, padding_id},
      embeddings_(sizes, config.dtype, padding_id),
      stack_(
          static_cast<int>(sizes.layers),
          encoder_maker(layer_config(sizes, config.dtype), config.attention)) {
  add_child("embeddings", embeddings_);
  add_child("encoder", stack_);
  if (sizes.norm_first) {
    norm_ = std::make_unique<Norm>(
        sizes.hidden, NormConfig{NormKind::layer, sizes.eps}, config.dtype);
    add_child("LayerNorm", *norm_);
  }
  if (pooler) {
    pooler_ = std::make_unique<Linear>(sizes.hidden, sizes.hidden, config.dtype,
                                       sizes.init_std);
    add_child("pooler.dense", *pooler_);
  }
}

EncodedText BertEncoder::forward(const TextInputs& inputs, Reads reads) {
  EncodedText out;
  out.text = pack(inputs, sizes_.heads, rule_);
  check_ids(out.text, "input_ids", out.text.input_ids, sizes_.vocab,
            "vocab_size");
  check_ids(out.text, "token_type_ids", out.text.token_type_ids, sizes_.types,
            "type_vocab_size");
  check_ids(out.text, "position_ids", out.text.position_ids, sizes_.positions,
            "max_position_embeddings");
  const bool first_only = reads == Reads::first_tokens;
  const Tensor& first = out.text.first_rows;
  const Tensor kept =
      reads == Reads::kept_tokens ? rows_to_keep(inputs) : Tensor();
  Tensor rows = first_only ? first : kept;
  if (kept.defined() && pooler_) rows = with_first(kept, first);
  out.stack = stack_.forward(embeddings_.forward(out.text), out.text.packing,
                             inputs.wanted, rows, norm_.get());
  if (!pooler_) return out;
  const Var last = out.stack.last;
  Var heads = last;
  if (kept.defined()) {
    const std::int64_t n = kept.numel();
    heads = slice(last, 0, n, n + first.numel());
    out.stack.last = slice(last, 0, 0, n);
  } else if (!first_only) {
    heads = gather_rows(last, first);
  }
  out.pooled = (*pooler_)(heads, Activation::tanh);
  return out;
}

BertModel::BertModel(const ModelConfig& config, std::int64_t padding_id)
    : encoder_(BertSizes(config.options), config,
               config.options.flag("add_pooling_layer", true), padding_id) {
  add_child("", encoder_);
}

ModelOutput BertModel::forward(const Inputs& inputs) {
  const EncodedText encoded =
      encoder_.forward(text_inputs(inputs), Reads::all_tokens);
  ModelOutput out = common_output(encoded.stack, encoded.text);
  out.last_hidden_state = pad_rows(encoded.stack.last, encoded.text);
  out.pooler_output = encoded.pooled;
  return out;
}

}  // namespace ea
