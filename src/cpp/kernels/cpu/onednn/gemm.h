// Matrix products by oneDNN, partitioned into single-threaded tiles of fixed
// shape, or by oneDNN itself.
#pragma once

#include "kernels/gemm.h"

namespace ea::onednn {

bool matmul_supports(const MatMul::Args& args);  // float32 and bfloat16
void matmul(const MatMul::Args& args);

// Computes the same products, partitioned among num_threads() threads by oneDNN
// itself, so that the bits may depend on the thread count. It is the baseline
// for the cost of partitioning by shape only, and runs only when forced. The
// rare product without a whole oneDNN primitive goes to matmul().
void matmul_parallel(const MatMul::Args& args);

}  // namespace ea::onednn
