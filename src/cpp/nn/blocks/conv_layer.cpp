// Wiring of the two branches.
#include "nn/blocks/conv_layer.h"

#include <utility>

#include "autograd/grad_mode.h"
#include "ops/shape_ops.h"
#include "runtime/fast_paths.h"

namespace ea {

namespace {

Conv2dConfig without_attention(const ConvLayerConfig& config) {
  Conv2dConfig c = config.convolution;
  if (config.beside) c.out -= config.beside->attention.value_size();
  return c;
}

// Keeps the variance, Var[y] = Var[x], as for a convolution without bias before
// a norm.
AffineInit fan_in_init() { return {{Init::Kind::truncated_fan_in}, {}}; }

// Returns the pixels of each image as the tokens of a sequence.
Tokens pixels_of(const Var& x, std::int64_t heads) {
  const std::int64_t pixels = x.dim(1) * x.dim(2);
  return {
      reshape(x, {x.dim(0) * pixels, x.dim(3)}),
      std::make_shared<const Packing>(heads, equal_offsets(x.dim(0), pixels))};
}

}  // namespace

ConvLayer::ConvLayer(const ConvLayerConfig& config)
    : config_(config),
      convolution_(without_attention(config)),
      norm_(config.convolution.out, config.convolution.dtype,
            config.norm.momentum, config.norm.eps) {
  add_child("convolution", convolution_);
  if (config.beside) {
    AttentionConfig a = config.beside->attention;
    a.init = fan_in_init();
    attention_ = std::make_unique<Attention>(a, config.beside->spec);
    add_child("attention.self", *attention_);
    dense_ = std::make_unique<Linear>(a.value_size(), a.value_size(), a.dtype,
                                      fan_in_init());
    add_child("attention.output.dense", *dense_);
  }
  add_child("normalization", norm_);
}

Var ConvLayer::attended(const Var& x, MapChain& chain) {
  Var seen = config_.convolution.stride == 2 ? halved_by_mean(x) : x;
  if (config_.beside->halved) seen = halved_by_mean(seen);
  const std::int64_t heads = config_.beside->attention.heads;
  const Var y = (*dense_)(chain.attend(*attention_, pixels_of(seen, heads)));
  const Var image =
      reshape(y, {seen.dim(0), seen.dim(1), seen.dim(2), y.dim(1)});
  return config_.beside->halved ? doubled(image) : image;
}

Var ConvLayer::join(const Var& x, MapChain& chain, Var residual,
                    std::optional<Activation> act) {
  const bool rectify = act == Activation::relu;
  Var out;
  if (!attention_ && !training() && !grad_enabled() && x.device().is_cpu() &&
      enabled(FastPath::fused_norm)) {
    out = convolution_.mapped(x, norm_.map(), std::move(residual), rectify);
  } else {
    Var y = convolution_(x);
    if (attention_) y = concat({y, attended(x, chain)}, 3);
    out = norm_.joined(y, residual, rectify);
  }
  return act && !rectify ? activation(out, *act) : out;
}

}  // namespace ea
