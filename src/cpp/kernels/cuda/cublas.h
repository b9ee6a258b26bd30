// Matrix products by cuBLASLt, a library that is opened when one is first
// needed: the package imports on machines that have none.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/cuda/launch.h"
#include "runtime/dtype.h"

namespace ea::cuda {

// y [m, n] = alpha op(a) op(b) + bias [n], `batch` times, all row-major in
// device memory; strides in elements. m, n, k > 0; float32 (never as TF32) or
// bfloat16, sums in float32. The same bits at every call.
struct LtProduct {
  DType dtype;
  std::int64_t batch, m, n, k;
  const void* a;
  const void* b;
  const void* bias;  // null: none
  void* y;
  std::int64_t a_stride, b_stride;                     // between stored rows
  std::int64_t a_batch = 0, b_batch = 0, y_batch = 0;  // between matrices
  bool transpose_a, transpose_b;
  float alpha;
};

// Throws BackendUnavailable, with every place that was looked at, where there
// is no cuBLASLt.
void lt_product(cudaStream_t stream, const LtProduct& product);

// "13.1.0 (/usr/lib/libcublasLt.so.13)", or what lt_product() would throw.
std::string cublas_report();

}  // namespace ea::cuda
