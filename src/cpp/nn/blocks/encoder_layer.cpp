// Wiring of attention and feed-forward.
#include "nn/blocks/encoder_layer.h"

namespace ea {

EncoderLayer::EncoderLayer(const TransformerLayerConfig& config,
                           const AttentionSpec& spec)
    : attention_(config, spec, config.layer_names().self),
      feed_forward_(config) {
  const LayerNames names = config.layer_names();
  add_child(names.self.place, attention_);
  add_child(names.feed_forward.place, feed_forward_);
}

LayerOutput EncoderLayer::forward(const LayerState& state,
                                  const PackingPtr& packing,
                                  const LayerWanted& wanted,
                                  const Tensor& rows) {
  AttendedRows attended = attention_.forward({state.hidden, packing}, {},
                                             state.carry, wanted.self, rows);
  return {feed_forward_.forward(attended.hidden),
          std::move(attended.attention)};
}

LayerMaker encoder_maker(const TransformerLayerConfig& layer,
                         const AttentionSpecs& specs) {
  return [config = layer, specs](int i) mutable {
    const AttentionSpec& spec = config.attention.enter(specs, i);
    return std::make_shared<EncoderLayer>(config, spec);
  };
}

}  // namespace ea
