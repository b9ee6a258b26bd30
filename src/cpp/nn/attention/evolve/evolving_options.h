// The options of Evolving Attention, shared by several kinds.
#pragma once

#include <vector>

#include "nn/options.h"

namespace ea {

inline std::vector<OptionSpec> evolving_options() {
  return {
      {"alpha",
       "float",
       Options::Value(0.1),
       0,
       1,
       {},
       false,
       "the weight of the previous layer's map (skip), from 0 to 1",
       /*per_layer=*/true},
      {"beta",
       "float",
       Options::Value(0.1),
       0,
       1,
       {},
       false,
       "the weight of the convolution, from 0 to 1",
       /*per_layer=*/true},
      {"kernel_size",
       "int",
       Options::Value(std::int64_t{3}),
       1,
       15,
       {},
       true,
       "the side of the convolution's square kernel, odd, from 1 to 15"},
  };
}

inline OptionSpec learnable_option() {
  return {"learnable",
          "bool",
          Options::Value(false),
          0,
          0,
          {},
          false,
          "Learn alpha and beta, one of each per layer"};
}

}  // namespace ea
