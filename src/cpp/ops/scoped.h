// Runs the kernel for the scope of a packing: edges, windows or dense maps.
#pragma once

#include "kernels/edge_attention.h"
#include "kernels/registry.h"
#include "kernels/window_attention.h"
#include "ops/packing.h"

namespace ea {

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

}  // namespace ea
