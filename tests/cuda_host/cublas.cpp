// Emulates cuBLASLt: the product promised in kernels/cuda/cublas.h, as a plain
// kernel, so that the guards around its operands apply here too.
#include "kernels/cuda/cublas.h"

#include <cstdlib>
#include <cstring>

#include "runtime/bfloat16.h"

namespace ea::cuda {

namespace {

constexpr int kThreads = 32;

template <typename T>
void product_kernel(MatMulProblem p) {
  const std::int64_t at = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= p.batch * p.m * p.n) return;
  const std::int64_t batch = at / (p.m * p.n);
  const std::int64_t i = at / p.n % p.m, j = at % p.n;
  const T* const a = static_cast<const T*>(p.a) + batch * p.a_batch;
  const T* const b = static_cast<const T*>(p.b) + batch * p.b_batch;
  const T* const bias = static_cast<const T*>(p.bias);
  float sum = 0.0f;
  for (std::int64_t d = 0; d < p.k; ++d) {
    const T left = a[a_offset(p, i, d)];
    const T right = b[b_offset(p, d, j)];
    sum += static_cast<float>(left) * static_cast<float>(right);
  }
  const float added = bias == nullptr ? 0.0f : static_cast<float>(bias[j]);
  T* const y = static_cast<T*>(p.y) + batch * p.m * p.n;
  y[i * p.n + j] = T(p.alpha * sum + added);
}

}  // namespace

void lt_product(cudaStream_t stream, DType dtype, const MatMulProblem& p) {
  launch(stream, blocks_for(p.batch * p.m * p.n, kThreads), kThreads, 0,
         dtype == DType::f32 ? product_kernel<float> : product_kernel<bfloat16>,
         p);
}

std::string cublas_report() {
  const char* const amiss = std::getenv("EA_EMULATED_CUDA");
  if (amiss != nullptr && std::strcmp(amiss, "no_cublas") == 0) {
    fail<BackendUnavailable>("cuda", "cuBLASLt was not found. Looked at:\n  {}",
                             "libcublasLt.so.13: no such file");
  }
  return "the emulation";
}

}  // namespace ea::cuda
