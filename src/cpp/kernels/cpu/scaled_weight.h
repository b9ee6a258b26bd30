// A convolution's fixed weight times the scale of the norm that follows it.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "kernels/conv2d.h"

namespace ea {

// Scale of each output channel; empty if there is none.
using Scale = std::span<const float>;

inline Scale scale_of(const Conv2dForward::Args& args) {
  if (!args.scale.defined()) return {};
  return {args.scale.as<float>(), static_cast<std::size_t>(args.scale.numel())};
}

// Identifies the weight and scale that cached data was derived from. Throws
// InputError if a weight with a scale is not finite.
struct ScaledWeight {
  const void* weight = nullptr;
  std::vector<float> scale;

  ScaledWeight() = default;
  ScaledWeight(const TensorView& w, Scale by)
      : weight(w.data), scale(by.begin(), by.end()) {
    if (!by.empty()) check_finite_weight(w);
  }
  bool is(const TensorView& w, Scale by) const {
    return weight == w.data &&
           std::equal(scale.begin(), scale.end(), by.begin(), by.end());
  }
};

}  // namespace ea
