// Matrix products by cuBLASLt, a library that is opened when one is first
// needed: the package imports on machines that have none.
#pragma once

#include <string>

#include "kernels/cuda/launch.h"
#include "kernels/gemm.h"
#include "runtime/dtype.h"

namespace ea::cuda {

// The product in device memory; m, n, k > 0; float32 (never as TF32) or
// bfloat16, sums in float32. The same bits at every call.
// Throws BackendUnavailable, with every place that was looked at, where there
// is no cuBLASLt.
void lt_product(cudaStream_t stream, DType dtype, const MatMulProblem& product);

// "13.1.0 (/usr/lib/libcublasLt.so.13)", or what lt_product() would throw.
std::string cublas_report();

}  // namespace ea::cuda
