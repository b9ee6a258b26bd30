// Vision Transformer (Dosovitskiy et al., ICLR 2021) with its tasks; names are
// those of Hugging Face's checkpoints.
#include <memory>
#include <optional>

#include "models/image_inputs.h"
#include "models/model.h"
#include "nn/blocks/encoder_layer.h"
#include "nn/blocks/patch_embedding.h"
#include "nn/blocks/stack.h"
#include "ops/arithmetic.h"
#include "ops/gather.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"

namespace ea {

namespace {

struct VitSizes {
  explicit VitSizes(const Options& o);

  PatchSizes patch;
  std::int64_t height, width;  // of an image
  std::int64_t layers, heads, intermediate, pooled, num_labels;
  bool class_token, mean_pooling, pooler, qkv_bias;
  double hidden_dropout, attention_dropout, classifier_dropout, eps, init_std;
  std::optional<double> layer_scale;
  Activation activation, pooler_activation;

  std::int64_t hidden() const { return patch.hidden; }
  std::int64_t patches() const {
    return height / patch.height * (width / patch.width);
  }
  std::int64_t first_patch() const { return class_token ? 1 : 0; }
  std::int64_t tokens() const { return patches() + first_patch(); }
};

bool mean_pooling_of(const Options& o, bool class_token) {
  const std::string value = o.text("pooling", class_token ? "token" : "mean");
  EA_CHECK_AS(ConfigError, value == "token" || value == "mean", "config",
              "pooling = '{}'; expected token or mean", value);
  EA_CHECK_AS(ConfigError, value == "mean" || class_token, "config",
              "pooling = 'token' without a class token; expected pooling = "
              "'mean' or use_class_token = True");
  return value == "mean";
}

VitSizes::VitSizes(const Options& o)
    : patch{positive(o, "num_channels"), positive(o, "patch_height"),
            positive(o, "patch_width"), positive(o, "hidden_size")},
      height(positive(o, "image_height")),
      width(positive(o, "image_width")),
      layers(positive(o, "num_hidden_layers")),
      heads(positive(o, "num_attention_heads")),
      intermediate(positive(o, "intermediate_size")),
      pooled(o.integer("pooler_output_size", patch.hidden)),
      num_labels(positive(o, "num_labels", 2)),
      class_token(o.flag("use_class_token", true)),
      mean_pooling(mean_pooling_of(o, class_token)),
      pooler(o.flag("add_pooling_layer", true)),
      qkv_bias(o.flag("qkv_bias", true)),
      hidden_dropout(rate(o, "hidden_dropout_prob", 0.0)),
      attention_dropout(rate(o, "attention_probs_dropout_prob", 0.0)),
      classifier_dropout(rate(o, "classifier_dropout", 0.0)),
      eps(o.number("layer_norm_eps", 1e-12)),
      init_std(o.number("initializer_range", 0.02)),
      activation(parse_activation(o.text("hidden_act", "gelu"))),
      pooler_activation(
          parse_activation(o.text("pooler_act", "tanh"), "pooler_act")) {
  if (o.has("layer_scale")) layer_scale = o.number("layer_scale");
  EA_CHECK_AS(ConfigError, hidden() % heads == 0, "config",
              "hidden_size {} is not a multiple of num_attention_heads {}",
              hidden(), heads);
  EA_CHECK_AS(ConfigError, patches() > 0, "config",
              "patches of {} x {} pixels (patch_size) are larger than images "
              "of {} x {} (image_size, height x width); take smaller patches",
              patch.height, patch.width, height, width);
}

LayerNames layer_names() {
  const AttentionNames attention{"", "attention.attention",
                                 "attention.output.dense", "layernorm_before",
                                 "attention.output.dropout"};
  return {attention, attention,
          FeedForwardNames{"", "intermediate.dense", "intermediate.gate",
                           "output.dense", "layernorm_after", "output.dropout",
                           "intermediate.dropout"}};
}

TransformerLayerConfig layer_config(const VitSizes& s, DType dtype) {
  TransformerLayerConfig config;
  config.attention =
      AttentionConfig::of(s.hidden(), s.heads, s.hidden() / s.heads);
  config.attention.place.count = static_cast<int>(s.layers);
  config.attention.dropout = s.attention_dropout;
  config.attention.biased = s.qkv_bias;
  config.attention.init = AffineInit::normal(s.init_std);
  config.attention.dtype = dtype;
  config.intermediate_size = s.intermediate;
  config.activation = s.activation;
  config.hidden_dropout = s.hidden_dropout;
  config.norm.eps = s.eps;
  config.norm_first = true;
  config.biased = true;
  config.layer_scale = s.layer_scale;
  config.names = layer_names();
  return config;
}

// Patches, with a class token before those of each image, and positions.
class VitEmbeddings : public Module {
 public:
  VitEmbeddings(const VitSizes& s, DType dtype)
      : sizes_(s),
        patches_(s.patch, dtype, s.init_std),
        position_(add_parameter("position_embeddings",
                                {1, s.tokens(), s.hidden()}, dtype,
                                Init::normal(s.init_std))),
        dropout_(s.hidden_dropout) {
    if (s.class_token) {
      token_ = add_parameter("cls_token", {1, 1, s.hidden()}, dtype,
                             Init::normal(s.init_std));
    }
    add_child("patch_embeddings.projection", patches_);
    add_child("dropout", dropout_);
  }

  // Returns [B * tokens, hidden].
  Var forward(const Var& pixels) const {
    const std::int64_t batch = pixels.dim(0), width = sizes_.hidden();
    Var rows = patches_(pixels);
    if (token_.defined()) {
      rows = gather_rows(concat({reshape(token_, {1, width}), rows}, 0),
                         with_token(batch));
    }
    const Var x =
        add(reshape(rows, {batch, sizes_.tokens(), width}), position_);
    return dropout_(reshape(x, {batch * sizes_.tokens(), width}));
  }
  Device device() const { return patches_.device(); }

 private:
  // Returns the row of each token: 0 for the class token, then the image's
  // patches.
  Tensor with_token(std::int64_t batch) const {
    const std::int64_t patches = sizes_.patches();
    const Tensor index = empty({batch * (patches + 1)}, DType::i64);
    auto* to = index.data<std::int64_t>();
    for (std::int64_t b = 0; b < batch; ++b) {
      *to++ = 0;
      for (std::int64_t i = 0; i < patches; ++i) *to++ = 1 + b * patches + i;
    }
    return index;
  }

  VitSizes sizes_;
  PatchEmbedding patches_;
  Var position_, token_;  // the token may be undefined
  Dropout dropout_;
};

struct EncodedImages {
  PackedRows rows;
  StackOutput stack;
  Var features;  // [B, hidden], read by the task
};

class VitEncoder : public Module {
 public:
  VitEncoder(const VitSizes& sizes, const ModelConfig& config)
      : sizes_(sizes),
        dtype_(config.dtype),
        embeddings_(sizes, config.dtype),
        stack_(
            static_cast<int>(sizes.layers),
            encoder_maker(layer_config(sizes, config.dtype), config.attention)),
        norm_(sizes.hidden(), {NormKind::layer, sizes.eps}, config.dtype) {
    add_child("embeddings", embeddings_);
    add_child("encoder", stack_);
    add_child("layernorm", norm_);
  }

  // With `whole`, stack.last has the rows of all tokens, else those that the
  // features need.
  EncodedImages forward(const ImageInputs& inputs, bool whole) {
    const Var pixels =
        checked_pixels(inputs, {.channels = sizes_.patch.channels,
                                .height = sizes_.height,
                                .width = sizes_.width,
                                .dtype = dtype_,
                                .device = embeddings_.device()});
    const std::int64_t batch = pixels.dim(0), tokens = sizes_.tokens();
    EncodedImages out;
    const Rows rows = whole_rows(equal_offsets(batch, tokens));
    out.rows = packed_rows(rows, sizes_.heads, batch, tokens);
    Tensor first;
    if (!sizes_.mean_pooling) {
      first = from_values({rows.offsets.data(), rows.offsets.size() - 1});
    }
    out.stack = stack_.forward(embeddings_.forward(pixels), out.rows.packing,
                               inputs.wanted, whole ? Tensor() : first, &norm_);
    if (sizes_.mean_pooling) {
      out.features =
          mean_of_patches(out.stack.last, batch, sizes_.first_patch());
    } else {
      out.features =
          whole ? gather_rows(out.stack.last, first) : out.stack.last;
    }
    return out;
  }

 private:
  VitSizes sizes_;
  DType dtype_;
  VitEmbeddings embeddings_;
  Stack stack_;
  Norm norm_;
};

// Model without a task: the states of all tokens, and the pooled features
// act(W h + b).
class VitModel final : public Model {
 public:
  explicit VitModel(const ModelConfig& config)
      : sizes_(config.options), encoder_(sizes_, config) {
    add_child("", encoder_);
    if (sizes_.pooler) {
      pooler_ = std::make_unique<Linear>(sizes_.hidden(), sizes_.pooled,
                                         config.dtype, sizes_.init_std);
      add_child("pooler.dense", *pooler_);
    }
  }

  ModelOutput forward(const Inputs& given) override {
    const ImageInputs inputs = image_inputs(given);
    refuse_labels(inputs);
    const EncodedImages encoded = encoder_.forward(inputs, true);
    ModelOutput out = common_output(encoded.stack, encoded.rows);
    out.last_hidden_state = pad_rows(encoded.stack.last, encoded.rows);
    if (pooler_) {
      out.pooler_output =
          (*pooler_)(encoded.features, sizes_.pooler_activation);
    }
    return out;
  }

 private:
  VitSizes sizes_;
  VitEncoder encoder_;
  std::unique_ptr<Linear> pooler_;
};

class VitForClassification final : public Model {
 public:
  explicit VitForClassification(const ModelConfig& config)
      : sizes_(config.options),
        encoder_(sizes_, config),
        classifier_(sizes_.hidden(), sizes_.num_labels, config.dtype,
                    sizes_.init_std),
        dropout_(sizes_.classifier_dropout) {
    add_child("vit", encoder_);
    add_child("classifier", classifier_);
    add_child("dropout", dropout_);
  }

  ModelOutput forward(const Inputs& given) override {
    const ImageInputs inputs = image_inputs(given);
    const EncodedImages encoded = encoder_.forward(inputs, false);
    ModelOutput out = common_output(encoded.stack, encoded.rows);
    out.logits = classifier_(dropout_(encoded.features));
    out.loss = image_loss(out.logits, inputs);
    return out;
  }

 private:
  VitSizes sizes_;
  VitEncoder encoder_;
  Linear classifier_;
  Dropout dropout_;
};

std::unique_ptr<Model> make_vit(const ModelConfig& config) {
  const std::string head = config.options.text("head", "base");
  if (head == "base") return std::make_unique<VitModel>(config);
  if (head == "image_classification") {
    return std::make_unique<VitForClassification>(config);
  }
  fail<ConfigError>(
      "vit", "unknown head '{}'; expected base or image_classification", head);
}

const RegisterModel kVit("vit", {image_input_specs(), make_vit});

}  // namespace

}  // namespace ea
