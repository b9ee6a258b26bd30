// Root mean square normalisation (kernels/cuda/layer_norm.cuh).
#include "kernels/rms_norm.h"

#include "kernels/cuda/layer_norm.cuh"

namespace ea::cuda {

namespace {

template <typename T>
void forward_of(const RmsNormForward::Args& a) {
  const NormParams<T> p{.x = a.x.as<T>(),
                        .weight = a.weight.as<T>(),
                        .y = a.y.as<T>(),
                        .scale = a.rrms.as<float>(),
                        .width = a.x.dim(1),
                        .eps = static_cast<float>(a.eps)};
  normalise<false>(p, a.x.dim(0));
}

template <typename T>
void backward_of(const RmsNormBackward::Args& a) {
  const NormGradParams<T> p{.dy = a.dy.as<T>(),
                            .x = a.x.as<T>(),
                            .weight = a.weight.as<T>(),
                            .scale = a.rrms.as<float>(),
                            .dx = a.dx.as<T>(),
                            .width = a.x.dim(1)};
  normalise_backward<false, T>(p, a.x.dim(0), a.dweight.as<T>(), nullptr);
}

}  // namespace

EA_RUN_CUDA(RmsNormForward, forward_of, x)
EA_RUN_CUDA(RmsNormBackward, backward_of, x)

}  // namespace ea::cuda
