// Text networks trained from scratch ("Predictive Attention Transformer",
// 4.1.1): Transformer, Conv-Transformer and CNN over word vectors.
#include <memory>
#include <string>
#include <vector>

#include "models/branch_options.h"
#include "models/heads.h"
#include "models/model.h"
#include "models/text_inputs.h"
#include "nn/blocks/branch_layer.h"
#include "nn/blocks/pooled_head.h"
#include "nn/blocks/stack.h"
#include "ops/arithmetic.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Positions that attention adds to its scores.
enum class NetPositions : std::uint8_t {
  usual,    // relative ones unless the spec has a bias
  learned,  // relative ones
  none,
};

struct TextNetSizes {
  explicit TextNetSizes(const Options& o);

  std::int64_t vocab, embedding, hidden, layers, heads, inner, intermediate;
  std::int64_t kernel_size, max_tokens, types, num_labels, pad_token_id;
  bool dense;
  NetPositions positions;
  double embedding_dropout, hidden_dropout, attention_dropout;
  double classifier_dropout, eps, init_std;
  Activation activation;

  // Whether layers have both branches; W_O exists only if they do not.
  bool both() const { return inner > 0 && inner < hidden; }
};

NetPositions net_positions(const Options& o) {
  if (!o.has("relative")) return NetPositions::usual;
  const std::string value = o.text("relative");
  EA_CHECK_AS(ConfigError, value == "learned" || value == "none", "config",
              "relative = '{}'; expected learned or none", value);
  return value == "learned" ? NetPositions::learned : NetPositions::none;
}

TextNetSizes::TextNetSizes(const Options& o)
    : vocab(positive(o, "vocab_size")),
      embedding(positive(o, "embedding_size")),
      hidden(positive(o, "hidden_size")),
      layers(positive(o, "num_hidden_layers")),
      heads(positive(o, "num_attention_heads")),
      inner(attention_width(o, 1.0, hidden, heads)),
      intermediate(positive(o, "intermediate_size")),
      kernel_size(positive(o, "kernel_size")),
      max_tokens(positive(o, "max_position_embeddings")),
      types(positive(o, "type_vocab_size")),
      num_labels(positive(o, "num_labels", 2)),
      pad_token_id(o.integer("pad_token_id", 0)),
      dense(o.flag("dense_connections", true)),
      positions(net_positions(o)),
      embedding_dropout(rate(o, "embedding_dropout_prob", 0.4)),
      hidden_dropout(rate(o, "hidden_dropout_prob", 0.2)),
      attention_dropout(rate(o, "attention_probs_dropout_prob", 0.0)),
      classifier_dropout(rate(o, "classifier_dropout", hidden_dropout)),
      eps(o.number("layer_norm_eps", 1e-5)),
      init_std(o.number("initializer_range", 0.1)),
      activation(parse_activation(o.text("hidden_act", "relu"))) {
  EA_CHECK_AS(ConfigError, kernel_size % 2 == 1, "config",
              "kernel_size = {}: a centred kernel has a middle, expected an "
              "odd number",
              kernel_size);
}

BranchLayerConfig net_layer(const TextNetSizes& s, DType dtype) {
  BranchLayerConfig config;
  TransformerLayerConfig& layer = config.layer;
  layer.attention = AttentionConfig::of(s.hidden, s.heads, s.inner / s.heads);
  layer.attention.place.count = static_cast<int>(s.layers);
  layer.attention.dropout = s.attention_dropout;
  layer.attention.init = AffineInit::glorot();
  layer.attention.dtype = dtype;
  layer.intermediate_size = s.intermediate;
  layer.activation = s.activation;
  layer.hidden_dropout = s.hidden_dropout;
  layer.norm.eps = s.eps;
  config.convolution_size = s.hidden - s.inner;
  config.kernel_size = s.kernel_size;
  config.projected = !s.both();
  return config;
}

LayerMaker net_layer_maker(const TextNetSizes& sizes,
                           const ModelConfig& model) {
  return [sizes, config = net_layer(sizes, model.dtype),
          specs = model.attention](int i) mutable {
    config.states = sizes.dense ? i + 1 : 1;
    const AttentionSpec& spec = config.layer.attention.enter(specs, i);
    const bool relative =
        sizes.positions == NetPositions::learned ||
        (sizes.positions == NetPositions::usual && !spec.bias);
    return std::make_shared<BranchLayer>(
        config, relative ? with_relative(spec, sizes.max_tokens - 1) : spec);
  };
}

// x = W dropout(e_word) + b, plus for text pairs a vector for the word's text.
class TextNetEmbeddings : public Module {
 public:
  TextNetEmbeddings(const TextNetSizes& s, DType dtype)
      : words_(s.vocab, s.embedding, dtype, s.init_std, s.pad_token_id),
        projection_(s.embedding, s.hidden, dtype, AffineInit::glorot()),
        dropout_(s.embedding_dropout) {
    add_child("word_embeddings", words_);
    add_child("dropout", dropout_);
    add_child("projection", projection_);
    if (s.types > 1) {
      types_ =
          std::make_unique<Embedding>(s.types, s.hidden, dtype, s.init_std);
      add_child("token_type_embeddings", *types_);
    }
  }

  Var forward(const PackedText& text) const {
    const Var x = projection_(dropout_(words_(text.input_ids, "input_ids")));
    return types_ ? add(x, (*types_)(text.token_type_ids, "token_type_ids"))
                  : x;
  }

 private:
  Embedding words_;
  Linear projection_;
  std::unique_ptr<Embedding> types_;  // null for single texts
  Dropout dropout_;
};

class TextNetEncoder : public Module {
 public:
  TextNetEncoder(const TextNetSizes& sizes, const ModelConfig& config)
      : sizes_(sizes),
        embeddings_(sizes, config.dtype),
        stack_(static_cast<int>(sizes.layers), net_layer_maker(sizes, config)) {
    add_child("embeddings", embeddings_);
    add_child("encoder", stack_);
  }

  EncodedText forward(const TextInputs& inputs) {
    EncodedText out;
    out.text = pack(inputs, sizes_.heads, {sizes_.max_tokens});
    check_ids(out.text, "input_ids", out.text.input_ids, sizes_.vocab,
              "vocab_size");
    check_ids(out.text, "token_type_ids", out.text.token_type_ids, sizes_.types,
              "type_vocab_size");
    out.stack = stack_.forward(embeddings_.forward(out.text), out.text.packing,
                               inputs.wanted);
    out.pooled = mean_of_sequences(out.stack.last, *out.text.packing);
    return out;
  }

 private:
  TextNetSizes sizes_;
  TextNetEmbeddings embeddings_;
  Stack stack_;
};

class TextNetForClassification final : public Model {
 public:
  explicit TextNetForClassification(const ModelConfig& config)
      : sizes_(config.options),
        encoder_(sizes_, config),
        classifier_(sizes_.hidden, sizes_.num_labels, config.dtype,
                    AffineInit::glorot()),
        dropout_(sizes_.classifier_dropout) {
    add_child("text_net", encoder_);
    add_child("classifier", classifier_);
    add_child("dropout", dropout_);
  }

  ModelOutput forward(const Inputs& given) override {
    const TextInputs inputs = text_inputs(given);
    const EncodedText encoded = encoder_.forward(inputs);
    ModelOutput out = common_output(encoded.stack, encoded.text);
    out.logits = classifier_(dropout_(encoded.pooled));
    if (inputs.labels.defined()) out.loss = sequence_loss(out.logits, inputs);
    return out;
  }

 private:
  TextNetSizes sizes_;
  TextNetEncoder encoder_;
  Linear classifier_;
  Dropout dropout_;
};

std::unique_ptr<Model> make_text_net(const ModelConfig& config) {
  const std::string head = config.options.text("head", "");
  EA_CHECK_AS(ConfigError, head == "sequence_classification", "text_net",
              "unknown head '{}'; expected sequence_classification", head);
  return std::make_unique<TextNetForClassification>(config);
}

std::vector<InputSpec> net_input_specs() {
  using enum InputKind;
  return {
      {"input_ids", integers, true,
       "token ids [B, T]; or packed [total] with sequence_offsets."},
      {"attention_mask", integers, true,
       "[B, T], 1 for tokens, 0 for padding; by default all 1. Masked tokens "
       "are not computed at all."},
      {"token_type_ids", integers, true,
       "in the shape of input_ids; for pairs 0 for the first text and the "
       "separator after it, 1 for the second; by default 0."},
      {"labels", labels, true,
       "[B] classes or values, or [B, num_labels] of 0 and 1 where several "
       "labels may hold (multi-label classification)."},
      {"sequence_offsets", integers, false,
       "[B + 1], index of each packed sequence's first token, then the total."},
  };
}

const RegisterModel kTextNet("text_net", {net_input_specs(), make_text_net});

}  // namespace

}  // namespace ea
