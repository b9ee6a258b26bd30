// Two linear functions; each is the transpose, hence the gradient, of the
// other.
#include "ops/relative_cells.h"

#include "autograd/node.h"
#include "kernels/registry.h"
#include "kernels/relative_cells.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Upper bound of max_distance: far above any sequence length, and 2 D + 1
// columns stay far below the range of 64 bits.
constexpr std::int64_t kMaxDistance = std::int64_t{1} << 31;

Tensor spread(const Tensor& x, const Packing& packing) {
  const Tensor y = empty({packing.map_elements()}, x.dtype(), x.device());
  kernels::run<RelativeCells>({contiguous(x), y, packing.layout()});
  return y;
}

Tensor gathered(const Tensor& maps, const Packing& packing,
                std::int64_t width) {
  const Tensor y = empty({packing.total_queries() * packing.heads(), width},
                         maps.dtype(), maps.device());
  kernels::run<RelativeSums>({contiguous(maps), y, packing.layout()});
  return y;
}

}  // namespace

Var relative_cells(const Var& x, const PackingPtr& packing) {
  const std::int64_t rows = packing->total_queries() * packing->heads();
  EA_CHECK(x.rank() == 2 && x.dim(0) == rows && x.dim(1) % 2 == 1,
           "relative_cells",
           "x has shape {}, expected ({}, 2 D + 1): a row for each of {} query "
           "tokens and {} heads, a column for each distance -D .. D",
           x.shape(), rows, packing->total_queries(), packing->heads());
  const std::int64_t width = x.dim(1);
  return record("relative_cells", spread(x.data(), *packing), {x}, {},
                [packing, width](const Node&, const Tensor& dy) {
                  return Node::Gradients{gathered(dy, *packing, width)};
                });
}

Var relative_sums(const Var& maps, const PackingPtr& packing,
                  std::int64_t max_distance) {
  packing->check_maps("relative_sums", maps.numel());
  EA_CHECK_AS(ConfigError, max_distance >= 0 && max_distance < kMaxDistance,
              "relative_sums",
              "max_distance {}, expected 0 (all keys alike) or more, below {}",
              max_distance, kMaxDistance);
  const Shape shape = maps.shape();
  return record(
      "relative_sums", gathered(maps.data(), *packing, 2 * max_distance + 1),
      {maps}, {}, [packing, shape](const Node&, const Tensor& dy) {
        return Node::Gradients{reshape_view(spread(dy, *packing), shape)};
      });
}

}  // namespace ea
