// Arguments that the CUDA kernels take, for register.cpp and the tests' host
// emulation.
#pragma once

#include "kernels/list.h"

namespace ea::cuda {

// Returns whether the kernel of K takes the arguments. By default it takes
// float32 and bfloat16.
template <typename K>
bool supports(const typename K::Args& args) {
  if constexpr (is_one_of<K, GatherRows, StepScale, Copy, Cast, Fill>) {
    return true;
  } else if constexpr (is_one_of<K, RecordLoss>) {
    return is_narrow(args.loss);  // the total is float64
  } else {
    return narrow<K>(args);
  }
}

}  // namespace ea::cuda
