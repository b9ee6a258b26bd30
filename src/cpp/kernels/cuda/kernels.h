// The entries of the CUDA kernels: one function per contract of kernels/, which
// starts kernels on the current stream and does not wait for them.
#pragma once

#include "kernels/activation.h"
#include "kernels/layer_norm.h"
#include "kernels/reduce.h"

// All take float32 and bfloat16, load each element into float, compute there
// and round once when they store. Tensors lie in device memory; lists of
// tensors and the offsets of a MapLayout in the host's. Sums are cut by the
// shapes alone and combined in one order, without atomics: every run gives the
// same bits.
namespace ea::cuda {

// Calls fn(TypeTag<T>{}) with the C++ type of a dtype that these kernels take.
template <typename Fn>
void visit_narrow(DType dtype, std::string_view op, Fn&& fn) {
  if (dtype == DType::f32) return fn(TypeTag<float>{});
  if (dtype == DType::bf16) return fn(TypeTag<bfloat16>{});
  fail<DTypeError>(op, "on CUDA: expected float32 or bfloat16, got {}", dtype);
}

void sum(const Sum::Args& args);
void activation_forward(const ActivationForward::Args& args);
void activation_backward(const ActivationBackward::Args& args);
void layer_norm_forward(const LayerNormForward::Args& args);
void layer_norm_backward(const LayerNormBackward::Args& args);

}  // namespace ea::cuda
