// The entry of a reference kernel: each source of this folder defines run<K>
// for the contracts K it implements, in scalar C++.
#pragma once

#include "tensor/tensor_view.h"

// All take float32, bfloat16 and float64, load each element into the wider
// Accumulator<T>, compute there and round once when they store. All run on the
// calling thread and add in the order of the loops, so that a result never
// depends on anything but the arguments.
namespace ea::ref {

template <typename K>
void run(const typename K::Args& args);

}  // namespace ea::ref
