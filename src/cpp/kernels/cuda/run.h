// Entry point of a CUDA kernel: each source in this folder defines run<K> for
// the contracts K it implements. run<K> launches kernels on the current stream
// and does not wait for them.
#pragma once

#include <string_view>

#include "runtime/check.h"
#include "tensor/tensor_view.h"

// All kernels take float32 and bfloat16: they load each element as float,
// compute in float and round once when storing. Those of kernels/copy.h take
// all types. Tensors are in device memory; lists of tensors and sequence
// offsets are in host memory. Reductions are partitioned by shape only and
// combined in a fixed order without atomics, so every run gives the same bits.
namespace ea::cuda {

template <typename K>
void run(const typename K::Args& args);

// Calls fn(TypeTag<T>{}) with the C++ type of a dtype these kernels accept.
template <typename Fn>
void visit_narrow(DType dtype, std::string_view op, Fn&& fn) {
  if (dtype == DType::f32) return fn(TypeTag<float>{});
  if (dtype == DType::bf16) return fn(TypeTag<bfloat16>{});
  fail<DTypeError>(op, "on CUDA: expected float32 or bfloat16, got {}", dtype);
}

}  // namespace ea::cuda

// Defines run<K> as fn<T>, by the type T of one operand.
#define EA_RUN_CUDA(K, fn, operand)                                          \
  template <>                                                                \
  void run<K>(const K::Args& args) {                                         \
    visit_narrow(args.operand.dtype, K::name,                                \
                 [&](auto tag) { fn<typename decltype(tag)::type>(args); }); \
  }
