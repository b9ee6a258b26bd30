// Wiring of the two kinds of attention and the feed-forward.
#include "nn/blocks/decoder_layer.h"

#include "runtime/check.h"

namespace ea {

DecoderLayer::DecoderLayer(const TransformerLayerConfig& config,
                           const AttentionSpec& self,
                           const AttentionSpec& cross)
    : attention_(config, self, config.layer_names().self),
      cross_attention_(config, cross, config.layer_names().cross),
      feed_forward_(config) {
  EA_CHECK_AS(ConfigError, attention_.attention().causal(), "decoder_layer",
              "the self attention of a decoder has a scope that shows later "
              "tokens; expected a causal one, such as dense with causal=True");
  const LayerNames names = config.layer_names();
  add_child(names.self.place, attention_);
  add_child(names.cross.place, cross_attention_);
  add_child(names.feed_forward.place, feed_forward_);
}

LayerOutput DecoderLayer::forward(const LayerState& state,
                                  const PackingPtr& packing,
                                  const LayerWanted& wanted,
                                  const Tensor& rows) {
  AttendedRows attended = attention_.forward({state.hidden, packing}, {},
                                             state.carry, wanted.self, {});
  AttendedRows crossed =
      cross_attention_.forward({attended.hidden, packing}, state.memory,
                               state.cross_carry, wanted.cross, rows);
  return {feed_forward_.forward(crossed.hidden), std::move(attended.attention),
          std::move(crossed.attention)};
}

LayerCache DecoderLayer::over(const Tokens& memory, const CachePlan& self_plan,
                              const CachePlan& cross_plan) const {
  AttentionCache self;
  self.plan = self_plan;
  return {std::move(self),
          cross_attention_.attention().over(memory, cross_plan)};
}

LayerOutput DecoderLayer::step(const LayerState& state, LayerCache& cache,
                               const LayerWanted& wanted) {
  AttendedRows attended =
      attention_.step(state.hidden, cache.self, state.carry, wanted.self);
  AttendedRows crossed = cross_attention_.step(attended.hidden, cache.cross,
                                               state.cross_carry, wanted.cross);
  return {feed_forward_.forward(crossed.hidden), std::move(attended.attention),
          std::move(crossed.attention)};
}

LayerMaker decoder_maker(const TransformerLayerConfig& layer,
                         const AttentionSpecs& self,
                         const AttentionSpecs& cross) {
  return [config = layer, self, cross](int i) mutable {
    const AttentionSpec& own = config.attention.enter(self, i);
    return std::make_shared<DecoderLayer>(
        config, own, spec_of_layer(cross, i, config.attention.place.count));
  };
}

}  // namespace ea
