// Wiring of the branches and the feed-forward.
#include "nn/blocks/branch_layer.h"

#include <cmath>

#include "ops/shape_ops.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Glorot and Bengio's initial values of a convolution: fan_in is kernel * in,
// fan_out is kernel * out.
AffineInit glorot_conv(std::int64_t in, std::int64_t out, std::int64_t kernel) {
  const auto fans = static_cast<double>(kernel * (in + out));
  return {Init::uniform(std::sqrt(6.0 / fans)), {}};
}

}  // namespace

BranchLayer::BranchLayer(const BranchLayerConfig& config,
                         const AttentionSpec& spec)
    : norm_(config.layer.attention.query_size, config.layer.norm,
            config.layer.attention.dtype),
      dropout_(config.layer.hidden_dropout),
      feed_forward_(config.layer) {
  const AttentionConfig& a = config.layer.attention;
  const std::int64_t width = a.query_size;
  const std::int64_t joined = a.value_size() + config.convolution_size;
  EA_CHECK_AS(ConfigError, config.projected ? joined > 0 : joined == width,
              "branch_layer",
              "{} features of attention and {} of the convolution; expected {} "
              "together",
              a.value_size(), config.convolution_size, width);
  if (config.states > 1) {
    connection_ = std::make_unique<Linear>(config.states * width, width,
                                           a.dtype, AffineInit::glorot());
    add_child("connection", *connection_);
  }
  if (a.value_size() > 0) {
    attention_ = std::make_unique<Attention>(a, spec);
    add_child("attention.self", *attention_);
  }
  if (config.convolution_size > 0) {
    convolution_ = std::make_unique<Conv1d>(
        width, config.convolution_size, config.kernel_size, a.dtype,
        glorot_conv(width, config.convolution_size, config.kernel_size));
    add_child("convolution", *convolution_);
  }
  if (config.projected) {
    dense_ = std::make_unique<Linear>(
        joined, width, a.dtype, config.layer.layer_inits().attention_output);
    add_child("branches.output.dense", *dense_);
  }
  add_child("branches.output.LayerNorm", norm_);
  add_child("branches.output.dropout", dropout_);
  add_child("", feed_forward_);
}

LayerOutput BranchLayer::forward(const LayerState& state,
                                 const PackingPtr& packing,
                                 const LayerWanted& wanted,
                                 const Tensor& rows) {
  EA_CHECK(!rows.defined(), "branch_layer",
           "rows are given; expected none: the convolution reads all tokens");
  Var x = state.hidden;
  if (connection_) {
    std::vector<Var> states = state.earlier;
    states.push_back(x);
    x = (*connection_)(concat(states, 1));
  }
  LayerOutput out;
  std::vector<Var> branches;
  if (attention_) {
    const Tokens tokens{x, packing};
    out.attention =
        attention_->forward(tokens, tokens, state.carry, wanted.self);
    branches.push_back(out.attention.context);
  }
  if (convolution_) branches.push_back((*convolution_)(x, packing));
  const Var joined = branches.size() == 1 ? branches[0] : concat(branches, 1);
  const Var mixed = dense_ ? (*dense_)(joined) : joined;
  out.hidden = feed_forward_.forward(norm_(dropout_, mixed, x));
  return out;
}

}  // namespace ea
