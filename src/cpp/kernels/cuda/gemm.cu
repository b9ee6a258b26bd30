// Matrix products: passes the contract's problem to cuBLASLt.
#include "kernels/cuda/cublas.h"
#include "kernels/cuda/run.h"
#include "kernels/cuda/vec.cuh"
#include "kernels/gemm.h"

namespace ea::cuda {

namespace {

constexpr int kThreads = 256;

// With k = 0 there is nothing to sum: y is the bias.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    bias_kernel(const T* bias, T* y, std::int64_t n, std::int64_t cols) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) y[i] = bias != nullptr ? bias[i % cols] : T(0.0f);
}

template <typename T>
void no_depth(const MatMul::Args& args) {
  const std::int64_t n = args.y.numel();
  launch(current_stream(), blocks_for(n, kThreads), kThreads, 0, bias_kernel<T>,
         static_cast<const T*>(args.bias.data), args.y.as<T>(), n,
         args.y.dim(-1));
}

}  // namespace

template <>
void run<MatMul>(const MatMul::Args& args) {
  const MatMulProblem p = problem_of(args);
  if (p.batch == 0 || p.m == 0 || p.n == 0) return;
  if (p.k > 0) return lt_product(current_stream(), args.y.dtype, p);
  visit_narrow(args.y.dtype, MatMul::name,
               [&](auto tag) { no_depth<typename decltype(tag)::type>(args); });
}

}  // namespace ea::cuda
