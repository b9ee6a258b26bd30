// Matrix products by cuBLASLt. The library is opened at the first product, so
// the package imports on machines without it.
#pragma once

#include <string>

#include "kernels/cuda/launch.h"
#include "kernels/gemm.h"
#include "runtime/dtype.h"

namespace ea::cuda {

// Computes the product in device memory. Needs m, n, k > 0 and float32 (never
// as TF32) or bfloat16; accumulates in float32. Every call gives the same bits.
// Throws BackendUnavailable, with every path that was tried, if there is no
// cuBLASLt.
void lt_product(cudaStream_t stream, DType dtype, const MatMulProblem& product);

// Returns e.g. "13.1.0 (/usr/lib/libcublasLt.so.13)", or lt_product()'s error.
std::string cublas_report();

}  // namespace ea::cuda
