// Convolution over heads of packed maps.
#include "ops/map_conv.h"

#include <algorithm>

#include "autograd/node.h"
#include "kernels/map_conv.h"
#include "kernels/registry.h"
#include "ops/arithmetic.h"
#include "ops/attention.h"
#include "ops/linear.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"

namespace ea {

void check_map_weight(const char* op, const Var& weight, const Var& bias,
                      std::int64_t heads, DType maps) {
  EA_CHECK(weight.rank() == 4 && weight.dim(0) == heads &&
               weight.dim(1) == heads && weight.dim(2) == weight.dim(3) &&
               weight.dim(2) % 2 == 1,
           op, "weight has shape {}, expected ({}, {}, k, k) with k odd",
           weight.shape(), heads, heads);
  EA_CHECK(bias.shape() == Shape({heads}), op,
           "bias has shape {}, expected ({},)", bias.shape(), heads);
  EA_CHECK_AS(DTypeError, weight.dtype() == maps && bias.dtype() == maps, op,
              "maps are {}, weight {}, bias {}: expected one type; use "
              ".to(dtype)",
              maps, weight.dtype(), bias.dtype());
}

void check_shift(const char* op, const MapShift& shift) {
  EA_CHECK_AS(
      ConfigError, shift.down >= 0 && shift.right >= 0, op,
      "shift ({}, {}) goes up or left; expected two numbers of 0 or more",
      shift.down, shift.right);
}

// The products of ones are 1 in the cells that exist, and 0 elsewhere.
Var head_mask(const Var& maps, const PackingPtr& packing) {
  const std::optional<Window>& window = packing->window();
  if (!window || window->heads == 1 || window->border != HeadBorder::clip) {
    return {};
  }
  const Var ones(full({packing->total_queries(), packing->heads()},
                      maps.dtype(), 1.0, maps.device()));
  return reshape(attention_scores(ones, ones, packing, 1.0), maps.shape());
}

Var masked_heads(const Var& maps, const Var& mask) {
  return maps.defined() && mask.defined() ? mul(maps, mask) : maps;
}

MapShift checked_shift(const char* op, const MapShift& shift,
                       const PackingPtr& packing) {
  check_shift(op, shift);
  return {std::min(shift.down, packing->longest_query()),
          std::min(shift.right, packing->longest_key())};
}

namespace {

// Along edges, a 1 x 1 kernel is a linear map over the heads of each edge.
Var edge_conv(const Var& x, const Var& weight, const Var& bias,
              const PackingPtr& packing) {
  const std::int64_t heads = packing->heads();
  EA_CHECK_AS(ConfigError, weight.dim(2) == 1, "map_conv",
              "the kernel has size {}, the maps are those of the edges of a "
              "graph, which have no neighbours; expected size 1",
              weight.dim(2));
  const Var rows = reshape(x, {packing->edges()->count(), heads});
  const Var y = linear(rows, reshape(weight, {heads, heads}), bias);
  return reshape(y, x.shape());
}

}  // namespace

Var map_conv(const Var& x, const Var& weight, const Var& bias,
             const PackingPtr& packing, const MapShift& shift) {
  check_map_weight("map_conv", weight, bias, packing->heads(), x.dtype());
  packing->check_maps("map_conv", x.numel());
  const MapShift moved = checked_shift("map_conv", shift, packing);
  if (packing->is_along_edges()) {
    EA_CHECK_AS(ConfigError, moved.none(), "map_conv",
                "shift ({}, {}) along the edges of a graph, which have no "
                "neighbours; expected (0, 0)",
                shift.down, shift.right);
    return edge_conv(x, weight, bias, packing);
  }
  const Var mask = head_mask(x, packing);
  const Var cells = masked_heads(x, mask);
  const Shape shape = x.shape();
  const Tensor flat = reshape_view(contiguous(cells.data()), {x.numel()});
  const Tensor y = empty_like(flat);
  const std::int64_t side = weight.dim(2);
  const bool shifted = !moved.none();
  kernels::run<MapConvForward>({flat, weight.data(), bias.data(), y,
                                packing->layout_for(side, shifted), moved});
  const Var result =
      record("map_conv", reshape_view(y, shape), {cells, weight, bias},
             {flat, weight.data()},
             [packing, shape, moved, side, shifted](const Node& node,
                                                    const Tensor& dy) {
               const Tensor& x = node.saved(0);
               const Tensor& w = node.saved(1);
               const bool parameters = node.wants(1) || node.wants(2);
               Tensor dx, dw, db;
               if (node.wants(0)) dx = empty_like(x);
               if (parameters) {
                 dw = empty_like(w);
                 db = empty({w.dim(0)}, w.dtype(), w.device());
               }
               kernels::run<MapConvBackward>(
                   {reshape_view(dy, x.shape()), x, w, dx, dw, db,
                    packing->layout_for(side, shifted), moved});
               return Node::Gradients{
                   dx.defined() ? reshape_view(dx, shape) : dx, dw, db};
             });
  return masked_heads(result, mask);
}

}  // namespace ea
