// The entry of a SIMD kernel in the namespace of one instruction set: each
// source of this folder defines run<K> for the contracts K it implements.
// Included once per set by targets.h, hence without an include guard.
#include "tensor/tensor_view.h"

namespace ea::simd::EA_TARGET {

template <typename K>
void run(const typename K::Args& args);

}  // namespace ea::simd::EA_TARGET

// Defines run<K> as fn<float> or fn<bfloat16>, by the type of one operand.
#define EA_RUN(K, fn, operand)                                        \
  template <>                                                         \
  void run<K>(const K::Args& args) {                                  \
    if (args.operand.dtype == DType::bf16) return fn<bfloat16>(args); \
    fn<float>(args);                                                  \
  }
