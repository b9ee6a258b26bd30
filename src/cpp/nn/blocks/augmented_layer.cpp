// Wiring of the two branches, the feed-forward and the block's end.
#include "nn/blocks/augmented_layer.h"

#include "ops/arithmetic.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"

namespace ea {

StepNorm::StepNorm(std::int64_t width, bool layer_norm, DType dtype) {
  constexpr double kEps = 1e-5;
  if (layer_norm) {
    layer_ = std::make_unique<LayerNorm>(width, kEps, dtype);
    add_child("", *layer_);
  } else {
    batch_ = std::make_unique<BatchNorm>(width, dtype);
    add_child("", *batch_);
  }
}

Var StepNorm::operator()(const Var& x) const {
  return layer_ ? (*layer_)(x) : (*batch_)(x);
}

AugmentedLayer::AugmentedLayer(const AugmentedLayerConfig& config,
                               const AttentionSpec& spec)
    : config_(config),
      norm_(config.attention.query_size, config.layer_norm,
            config.attention.dtype),
      intermediate_(config.attention.query_size, config.intermediate_size,
                    config.attention.dtype,
                    AffineInit::uniform(config.attention.query_size)),
      output_(config.intermediate_size, config.attention.query_size,
              config.attention.dtype,
              AffineInit::uniform(config.intermediate_size)),
      dropout_(config.hidden_dropout) {
  const AttentionConfig& a = config.attention;
  if (a.value_size() > 0) {
    attention_ = std::make_unique<Attention>(a, spec);
    add_child("attention.self", *attention_);
    if (config.output_projection) {
      attention_dense_ =
          std::make_unique<Linear>(a.value_size(), a.value_size(), a.dtype,
                                   AffineInit::uniform(a.value_size()));
      add_child("attention.output.dense", *attention_dense_);
    }
  }
  if (config.convolution_size > 0) {
    convolution_ = std::make_unique<WeightNormConv1d>(
        a.query_size, config.convolution_size, config.kernel_size,
        config.dilation, config.causal, a.dtype,
        AffineInit::uniform(a.query_size * config.kernel_size));
    add_child("convolution", *convolution_);
  }
  add_child("norm", norm_);
  add_child("intermediate.dense", intermediate_);
  add_child("output.dense", output_);
  add_child("output.dropout", dropout_);
  if (config.ends_block) {
    block_norm_ =
        std::make_unique<StepNorm>(a.query_size, config.layer_norm, a.dtype);
    add_child("block_norm", *block_norm_);
  }
}

Var AugmentedLayer::feed_forward(const Var& x) const {
  if (dropout_.at().p == 0.0) {
    return intermediate_(x, config_.activation, output_);
  }
  return output_(dropout_(intermediate_(x, config_.activation)));
}

LayerOutput AugmentedLayer::forward(const LayerState& state,
                                    const PackingPtr& packing,
                                    const LayerWanted& wanted,
                                    const Tensor& rows) {
  EA_CHECK(!rows.defined(), "augmented_layer",
           "rows are given; expected none: the convolution reads all steps");
  const Var& x = state.hidden;
  LayerOutput out;
  Var joined;
  if (attention_) {
    const Tokens tokens{x, packing};
    out.attention =
        attention_->forward(tokens, tokens, state.carry, wanted.self);
    joined = attention_dense_ ? (*attention_dense_)(out.attention.context)
                              : out.attention.context;
  }
  if (convolution_) {
    const Var convolved = (*convolution_)(x, packing);
    if (!joined.defined()) {
      joined = convolved;
    } else if (config_.convolution_first) {
      joined = concat({convolved, joined}, 1);
    } else {
      joined = concat({joined, convolved}, 1);
    }
  }
  out.hidden = feed_forward(norm_(joined));
  if (block_norm_)
    out.hidden = (*block_norm_)(add(out.hidden, state.block_input));
  return out;
}

}  // namespace ea
