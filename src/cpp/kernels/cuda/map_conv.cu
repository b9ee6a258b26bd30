// The convolution over the heads of attention maps, and its gradients.
#include "kernels/cuda/conv_weights.cuh"
#include "kernels/cuda/run.h"
#include "kernels/map_conv.h"

namespace ea::cuda {

namespace {

// y = Conv(x).
template <typename T>
struct PlainWork {
  static constexpr bool kGates = false;
  PlainWindow<T> input;
  T* y;

  template <int N>
  __device__ void finish(std::int64_t cell, unsigned,
                         const float (&z)[N]) const {
    store_few(y + cell, is_few<N>(y + cell), z);
  }
};

template <typename T>
void map_conv_forward_of(const MapConvForward::Args& args) {
  run_conv<T>(args.layout, args.weight.dim(-1),
              {args.weight.as<T>(), args.bias.as<T>(), false, args.shift},
              PlainWork<T>{{{args.x.as<T>()}}, args.y.as<T>()});
}

template <typename T>
void map_conv_backward_of(const MapConvBackward::Args& args) {
  const PlainWindow<T> dy{{args.dy.as<T>(), args.shift}};
  const std::int64_t kernel = args.weight.dim(-1);
  if (args.dx.defined()) {
    run_conv<T>(args.layout, kernel,
                {args.weight.as<T>(), nullptr, true, args.shift},
                PlainWork<T>{dy, args.dx.as<T>()});
  }
  if (args.dweight.defined() || args.dbias.defined()) {
    run_weights<T>(args.layout, kernel, args.shift, dy,
                   PlainWindow<T>{{args.x.as<T>()}}, args.dweight, args.dbias);
  }
}

}  // namespace

EA_RUN_CUDA(MapConvForward, map_conv_forward_of, weight)
EA_RUN_CUDA(MapConvBackward, map_conv_backward_of, weight)

}  // namespace ea::cuda
