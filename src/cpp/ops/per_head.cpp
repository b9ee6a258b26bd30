// Gathers rows, so that the gradient is a sum over each head.
#include "ops/per_head.h"

#include "ops/arithmetic.h"
#include "ops/gather.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"

namespace ea {

Var per_head(const Var& x, const PackingPtr& packing) {
  const std::int64_t heads = packing->heads();
  EA_CHECK(x.shape() == Shape({heads}), "per_head",
           "x has shape {}, expected ({},): one number for each head",
           x.shape(), heads);
  if (packing->is_along_edges()) {  // the heads of an edge are adjacent
    const std::int64_t edges = packing->edges()->count();
    const Var none(zeros({edges, 1}, x.dtype(), x.device()));
    return reshape(add(none, reshape(x, {1, heads})), {edges * heads});
  }
  std::vector<std::int64_t> head_of;
  head_of.reserve(static_cast<std::size_t>(packing->map_elements()));
  for (std::int64_t b = 0; b < packing->sequences(); ++b) {
    const auto i = static_cast<std::size_t>(b);
    const std::int64_t cells =
        (packing->q_offsets()[i + 1] - packing->q_offsets()[i]) *
        packing->columns(i);
    for (std::int64_t h = 0; h < heads; ++h) {
      head_of.insert(head_of.end(), static_cast<std::size_t>(cells), h);
    }
  }
  const Var spread = gather_rows(reshape(x, {heads, 1}), from_values(head_of));
  return reshape(spread, {packing->map_elements()});
}

}  // namespace ea
