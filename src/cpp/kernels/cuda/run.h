// The entry of a CUDA kernel: each source of this folder defines run<K> for the
// contracts K it implements, which starts kernels on the current stream and
// does not wait for them.
#pragma once

#include <string_view>

#include "runtime/check.h"
#include "tensor/tensor_view.h"

// All take float32 and bfloat16, load each element into float, compute there
// and round once when they store; those of kernels/copy.h take all types.
// Tensors lie in device memory; lists of tensors and the offsets of sequences
// in the host's. Sums are cut by the shapes alone and combined in one order,
// without atomics: every run gives the same bits.
namespace ea::cuda {

template <typename K>
void run(const typename K::Args& args);

// Calls fn(TypeTag<T>{}) with the C++ type of a dtype that these kernels take.
template <typename Fn>
void visit_narrow(DType dtype, std::string_view op, Fn&& fn) {
  if (dtype == DType::f32) return fn(TypeTag<float>{});
  if (dtype == DType::bf16) return fn(TypeTag<bfloat16>{});
  fail<DTypeError>(op, "on CUDA: expected float32 or bfloat16, got {}", dtype);
}

}  // namespace ea::cuda
