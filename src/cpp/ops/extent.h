// The extent of a reduction over one axis or over all axes.
#pragma once

#include <optional>

#include "tensor/shape.h"

namespace ea {

// A shape as [outer, n, inner], where n is the reduced extent.
struct Extent {
  std::int64_t outer = 1, n = 1, inner = 1;
  Shape kept;     // the axis has size 1 (all axes when reducing all)
  Shape dropped;  // without the axis
};

// Throws a ShapeError that names `op` if the axis does not exist.
inline Extent extent_of(const Shape& shape, std::optional<int> axis,
                        const char* op) {
  Extent e;
  if (!axis) {
    e.n = shape.numel();
    for (int i = 0; i < shape.rank(); ++i) e.kept.append(1);
    return e;
  }
  const int a = normalize_axis(*axis, shape.rank(), op);
  for (int i = 0; i < shape.rank(); ++i) {
    if (i < a) e.outer *= shape[i];
    if (i > a) e.inner *= shape[i];
    e.kept.append(i == a ? 1 : shape[i]);
    if (i != a) e.dropped.append(shape[i]);
  }
  e.n = shape[a];
  return e;
}

}  // namespace ea
