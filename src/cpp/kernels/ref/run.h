// Entry point of the reference kernels: each source of this folder defines
// run<K> for the contracts K it implements, in scalar C++.
#pragma once

#include "tensor/tensor_view.h"

// The kernels take float32, bfloat16 and float64, load each element into the
// wider Accumulator<T>, compute there and round once when they store. They run
// on the calling thread and add in loop order, so that a result depends on the
// arguments alone.
namespace ea::ref {

template <typename K>
void run(const typename K::Args& args);

}  // namespace ea::ref

// Defines run<K> as fn<T>, by the type T of one operand.
#define EA_RUN_REF(K, fn, operand)                                             \
  template <>                                                                  \
  void run<K>(const K::Args& args) {                                           \
    visit_floating(args.operand.dtype, K::name,                                \
                   [&](auto tag) { fn<typename decltype(tag)::type>(args); }); \
  }
