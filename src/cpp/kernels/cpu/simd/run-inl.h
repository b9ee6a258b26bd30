// The entry of a SIMD kernel in the namespace of one instruction set: each
// source of this folder defines run<K> for the contracts K it implements.
// Included once per set by targets.h, hence without an include guard.
#include "tensor/tensor_view.h"

namespace ea::simd::EA_TARGET {

template <typename K>
void run(const typename K::Args& args);

}  // namespace ea::simd::EA_TARGET
