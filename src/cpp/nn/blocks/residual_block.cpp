// Makes the layers of a block, with Hugging Face's names.
#include "nn/blocks/residual_block.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/check.h"

namespace ea {

ResidualBlock::ResidualBlock(const ResidualBlockConfig& c) : config_(c) {
  EA_CHECK_AS(Error,
              c.beside.empty() || c.beside.size() == c.wide_convolutions(),
              "residual_block", "attention next to {} of {} convolutions",
              c.beside.size(), c.wide_convolutions());
  if (c.in != c.out || c.stride != 1) {
    shortcut_ = std::make_unique<ConvLayer>(
        ConvLayerConfig{{c.in, c.out, 1, c.stride, c.dtype}, c.norm, {}, {}});
    add_child("shortcut", *shortcut_);
  }
  const std::int64_t inner = c.inner();
  if (c.bottleneck) {
    add_layer(c.in, inner, 1, c.stride_first ? c.stride : 1, true);
    add_layer(inner, inner, 3, c.stride_first ? 1 : c.stride, true);
    add_layer(inner, c.out, 1, 1, false);
  } else {
    add_layer(c.in, inner, 3, c.stride, true);
    add_layer(inner, c.out, 3, 1, false);
  }
}

void ResidualBlock::add_layer(std::int64_t in, std::int64_t out,
                              std::int64_t kernel, std::int64_t stride,
                              bool active) {
  ConvLayerConfig layer{
      {in, out, kernel, stride, config_.dtype}, config_.norm, {}, {}};
  if (active) layer.activation = Activation::relu;
  if (kernel == 3 && !config_.beside.empty()) {
    layer.beside = config_.beside[wide_++];
  }
  layers_.push_back(std::make_unique<ConvLayer>(layer));
  add_child("layer." + std::to_string(layers_.size() - 1), *layers_.back());
}

Var ResidualBlock::forward(std::vector<Var> earlier, MapChain& chain) {
  Var y = std::move(earlier.back());
  earlier.clear();
  Var beside = shortcut_ ? shortcut_->forward(y, chain) : y;
  for (std::size_t i = 0; i + 1 < layers_.size(); ++i) {
    y = layers_[i]->forward(y, chain);
  }
  return layers_.back()->join(y, chain, std::move(beside), config_.activation);
}

bool ResidualBlock::takes_previous() const {
  return std::any_of(layers_.begin(), layers_.end(),
                     [](const auto& layer) { return layer->takes_previous(); });
}

}  // namespace ea
