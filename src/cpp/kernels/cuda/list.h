// The CUDA kernels, one line per contract: what register.cpp and the host
// emulation of the tests register.
#pragma once

#include "kernels/cuda/kernels.h"

namespace ea::cuda {

// Float64 is the business of the reference kernels.
inline bool narrow(const TensorView& view) {
  return view.dtype == DType::f32 || view.dtype == DType::bf16;
}

template <typename Args>
bool narrow_x(const Args& args) {
  return narrow(args.x);
}

// Calls to.kernel<K, entry>(supports) for each.
template <typename To>
void for_each_kernel(const To& to) {
  to.template kernel<Sum, sum>(narrow_x);
  to.template kernel<ActivationForward, activation_forward>(narrow_x);
  to.template kernel<ActivationBackward, activation_backward>(narrow_x);
  to.template kernel<LayerNormForward, layer_norm_forward>(narrow_x);
  to.template kernel<LayerNormBackward, layer_norm_backward>(narrow_x);
}

}  // namespace ea::cuda
