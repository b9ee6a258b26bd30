// Projection, attention along edges, concatenation or mean of the heads.
#include "nn/blocks/graph_layer.h"

#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/attention.h"
#include "ops/gather.h"
#include "ops/reduce.h"
#include "ops/shape_ops.h"

namespace ea {

GraphLayer::GraphLayer(const GraphLayerConfig& config,
                       const AttentionSpec& spec)
    : config_(config),
      dropout_(config.dropout),
      linear_(config.in_size, config.attention.key_size(),
              config.attention.dtype, AffineInit::glorot(), false),
      attention_(config.attention, spec) {
  add_child("dropout", dropout_);
  add_child("lin", linear_);
  add_child("", attention_);
  bias_ = add_parameter("bias",
                        {config.averages ? config.attention.head_value_width
                                         : config.attention.value_size()},
                        config.attention.dtype, {});
}

Var GraphLayer::project(const Var& features, const EdgesPtr& cells) const {
  const Var kept = dropout_(features);
  if (!cells) return linear_(kept);
  // Weighted sums of the rows of W^T, as edges sum values.
  const auto matrix = std::make_shared<const Packing>(
      1, std::vector<std::int64_t>{0, cells->queries()},
      std::vector<std::int64_t>{0, cells->num_keys()});
  return attention_context(
      kept, transpose(linear_.weight(), 0, 1),
      Packing::along_edges(Packing::with_edges(matrix, cells)));
}

LayerOutput GraphLayer::forward(const LayerState& state,
                                const PackingPtr& packing,
                                const LayerWanted& wanted, const Tensor& rows) {
  const Tokens nodes{
      config_.projected ? state.hidden : project(state.hidden, nullptr),
      packing};
  const AttentionOutput attention =
      attention_.forward(nodes, nodes, state.carry, wanted.self);
  Var y = attention.context;
  if (config_.averages) {
    const AttentionConfig& c = config_.attention;
    y = mean(reshape(y, {y.dim(0), c.heads, c.head_value_width}), 1);
  }
  y = add(y, bias_);
  if (config_.activates) y = activation(y, Activation::elu);
  return {rows.defined() ? gather_rows(y, rows) : y, attention};
}

}  // namespace ea
