// The evolving step in its closed form, forward and backward.
#include "kernels/cuda/conv_weights.cuh"
#include "kernels/cuda/evolve_cells.cuh"
#include "kernels/cuda/run.h"
#include "kernels/evolve.h"

namespace ea::cuda {

namespace {

// G = w dL [Z > 0] of Z = Conv(I).
template <typename T>
struct GateWork {
  static constexpr bool kGates = false;
  MixedWindow<T, T> input;
  const T* dout;
  float* g;

  template <int N>
  __device__ void finish(std::int64_t cell, unsigned,
                         const float (&z)[N]) const {
    const bool whole = is_few<N>(dout + cell) && is_few<N>(g + cell);
    float d[N];
    load_few(dout + cell, whole, d);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      d[k] = z[k] <= 0.0f ? 0.0f : input.value.c.w * d[k];
    }
    store_few(g + cell, whole, d);
  }
};

template <typename T>
void evolve_forward_of(const EvolveForward::Args& args) {
  const MixedWindow<T, T> input{
      {args.previous.as<T>(), args.scores.as<T>(), args.c}};
  run_conv<T>(args.layout, args.weight.dim(-1),
              {args.weight.as<T>(), args.bias.as<T>(), false, args.shift},
              EvolvedWork<T, T>{input, args.out.as<T>()});
}

// G is stored as float32 between the two convolutions: rounding to bfloat16
// would add errors that dweight sums over all cells.
template <typename T>
void evolve_backward_of(const EvolveBackward::Args& args) {
  const MixedWindow<T, T> input{
      {args.previous.as<T>(), args.scores.as<T>(), args.c}};
  const std::int64_t kernel = args.weight.dim(-1);
  const Scratch<float> g(current_stream(), args.layout.numel());
  run_conv<T>(args.layout, kernel,
              {args.weight.as<T>(), args.bias.as<T>(), false, args.shift},
              GateWork<T>{input, args.dout.as<T>(), g.data()});
  const PlainWindow<float> gated{{g.data()}};
  run_conv<T>(args.layout, kernel,
              {args.weight.as<T>(), nullptr, true, args.shift},
              EvolveGradientWork<PlainWindow<float>, T, T, T>{
                  gated, args.c, args.dout.as<T>(), args.dscores.as<T>(),
                  args.dprevious.as<T>()});
  run_weights<T>(args.layout, kernel, args.shift, gated, input, args.dweight,
                 args.dbias);
}

}  // namespace

EA_RUN_CUDA(EvolveForward, evolve_forward_of, scores)
EA_RUN_CUDA(EvolveBackward, evolve_backward_of, scores)

}  // namespace ea::cuda
