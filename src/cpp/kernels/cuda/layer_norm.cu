// LayerNorm with residual and dropout (kernels/cuda/layer_norm.cuh).
#include "kernels/layer_norm.h"

#include "kernels/cuda/layer_norm.cuh"

namespace ea::cuda {

namespace {

template <typename T>
void forward_of(const LayerNormForward::Args& a) {
  const NormParams<T> p{a.x.as<T>(),
                        a.residual.as<T>(),
                        a.weight.as<T>(),
                        a.bias.as<T>(),
                        a.sum.as<T>(),
                        a.y.as<T>(),
                        a.mean.as<float>(),
                        a.rstd.as<float>(),
                        a.x.dim(1),
                        static_cast<float>(a.eps),
                        DropBits(a.p, a.seed, a.stream)};
  normalise<true>(p, a.x.dim(0));
}

template <typename T>
void backward_of(const LayerNormBackward::Args& a) {
  const NormGradParams<T> p{
      a.dy.as<T>(),        a.x.as<T>(),        a.weight.as<T>(),
      a.mean.as<float>(),  a.rstd.as<float>(), a.dx.as<T>(),
      a.dresidual.as<T>(), a.x.dim(1),         DropBits(a.p, a.seed, a.stream)};
  normalise_backward<true>(p, a.x.dim(0), a.dweight.as<T>(), a.dbias.as<T>());
}

}  // namespace

EA_RUN_CUDA(LayerNormForward, forward_of, x)
EA_RUN_CUDA(LayerNormBackward, backward_of, x)

}  // namespace ea::cuda
