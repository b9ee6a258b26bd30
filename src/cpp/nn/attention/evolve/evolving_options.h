// The options of Evolving Attention, shared by several kinds.
#pragma once

#include <vector>

#include "nn/options.h"

namespace ea {

inline std::vector<OptionSpec> evolving_options() {
  return {
      {.name = "alpha",
       .type = "float",
       .fallback = 0.1,
       .high = 1,
       .doc = "the weight of the previous layer's map (skip), from 0 to 1",
       .per_layer = true},
      {.name = "beta",
       .type = "float",
       .fallback = 0.1,
       .high = 1,
       .doc = "the weight of the convolution, from 0 to 1",
       .per_layer = true},
      {.name = "kernel_size",
       .type = "int",
       .fallback = 3,
       .low = 1,
       .high = 15,
       .odd = true,
       .doc = "the side of the convolution's square kernel, odd, from 1 to 15"},
  };
}

inline OptionSpec learnable_option() {
  return {.name = "learnable",
          .type = "bool",
          .fallback = false,
          .doc = "Learn alpha and beta, one of each per layer"};
}

}  // namespace ea
