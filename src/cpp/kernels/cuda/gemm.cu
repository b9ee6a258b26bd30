// Matrix products: what the contract says, handed to cuBLASLt.
#include <algorithm>

#include "kernels/cuda/cublas.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/vec.cuh"

namespace ea::cuda {

namespace {

constexpr int kThreads = 256;

// Without a sum to take, y is the bias.
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

LtProduct product_of(const MatMul::Args& args) {
  const int rank = args.a.shape.rank();
  const auto rows = [&](const TensorView& t) { return t.shape[rank - 2]; };
  const auto cols = [&](const TensorView& t) { return t.shape[rank - 1]; };
  // A single row has no stride worth the name; BLAS wants one all the same.
  const auto stride = [&](const TensorView& t) {
    return std::max({rows(t) > 1 ? t.strides[rank - 2] : cols(t), cols(t),
                     std::int64_t{1}});
  };
  LtProduct p{};
  p.dtype = args.y.dtype;
  p.batch = rank == 3 ? args.y.shape[0] : 1;
  p.m = rows(args.y);
  p.n = cols(args.y);
  p.k = args.transpose_a ? rows(args.a) : cols(args.a);
  p.a = args.a.data;
  p.b = args.b.data;
  p.bias = args.bias.data;
  p.y = args.y.data;
  p.a_stride = stride(args.a);
  p.b_stride = stride(args.b);
  p.a_batch = rank == 3 ? args.a.strides[0] : 0;
  p.b_batch = rank == 3 ? args.b.strides[0] : 0;
  p.y_batch = p.m * p.n;
  p.transpose_a = args.transpose_a;
  p.transpose_b = args.transpose_b;
  p.alpha = static_cast<float>(args.alpha);
  return p;
}

}  // namespace

void matmul(const MatMul::Args& args) {
  const LtProduct p = product_of(args);
  if (p.batch == 0 || p.m == 0 || p.n == 0) return;
  if (p.k > 0) return lt_product(current_stream(), p);
  visit_narrow(args.y.dtype, MatMul::name,
               [&](auto tag) { no_depth<typename decltype(tag)::type>(args); });
}

}  // namespace ea::cuda
