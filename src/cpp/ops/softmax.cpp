// Softmax of rows and of packed maps: one kernel, two layouts.
#include "ops/softmax.h"

#include "autograd/node.h"
#include "kernels/edge_attention.h"
#include "kernels/registry.h"
#include "kernels/softmax.h"
#include "kernels/window_attention.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Runs the contract for the packing's scope on `args`, followed by the layout.
template <typename OfEdges, typename OfWindows, typename OfDense,
          typename... Args>
void run_scoped(const Packing& packing, Device device, const Args&... args) {
  if (packing.is_along_edges()) {
    kernels::run<OfEdges>({args..., packing.edge_layout(device)});
  } else if (packing.window()) {
    kernels::run<OfWindows>({args..., packing.window_layout()});
  } else {
    kernels::run<OfDense>({args..., packing.layout()});
  }
}

Var run_softmax(const char* name, const Var& x, const Tensor& flat,
                const PackingPtr& packing, double scale) {
  const Tensor y = empty_like(flat);
  run_scoped<EdgeSoftmax, WindowSoftmax, SoftmaxForward>(
      *packing, flat.device(), flat, y, scale);
  const Shape shape = x.shape();
  return record(
      name, reshape_view(y, shape), {x}, {y},
      [packing, scale, shape](const Node& node, const Tensor& dy) {
        const Tensor dx = empty_like(node.saved(0));
        const Tensor flat = reshape_view(dy, dx.shape());
        run_scoped<EdgeSoftmaxBackward, WindowSoftmaxBackward, SoftmaxBackward>(
            *packing, dx.device(), flat, node.saved(0), dx, scale);
        return Node::Gradients{reshape_view(dx, shape)};
      });
}

}  // namespace

Var softmax(const Var& x) {
  EA_CHECK(x.rank() >= 1, "softmax", "expected at least one axis");
  const std::int64_t width = x.dim(-1);
  const std::int64_t rows = width == 0 ? 0 : x.numel() / width;
  // A matrix is one sequence with one head, `rows` queries and `width` keys.
  const auto packing =
      std::make_shared<const Packing>(1, std::vector<std::int64_t>{0, rows},
                                      std::vector<std::int64_t>{0, width});
  const Tensor flat = reshape_view(contiguous(x.data()), {x.numel()});
  return run_softmax("softmax", x, flat, packing, 1.0);
}

Var map_softmax(const Var& x, const PackingPtr& packing, double scale,
                const Tensor& key_mask) {
  packing->check_maps("map_softmax", x.numel());
  EA_CHECK(!key_mask.defined() || (is_mask(key_mask.dtype()) &&
                                   key_mask.numel() == packing->total_keys()),
           "map_softmax", "key_mask is {} {}, expected bool or uint8 ({},)",
           key_mask.dtype(), key_mask.shape(), packing->total_keys());
  const Tensor flat = reshape_view(contiguous(x.data()), {x.numel()});
  return run_softmax(
      "map_softmax", x, flat,
      key_mask.defined()
          ? Packing::masked(packing, to_device(key_mask, x.device()))
          : packing,
      scale);
}

}  // namespace ea
