// Matrix products by oneDNN, cut into single-threaded tiles of fixed shape, or
// divided by oneDNN.
#pragma once

#include "kernels/gemm.h"

namespace ea::onednn {

bool matmul_supports(const MatMul::Args& args);  // float32 and bfloat16
void matmul(const MatMul::Args& args);

// The same products with the work divided among num_threads() threads by oneDNN
// itself, so that the bits may depend on their number: what the division by
// shapes alone costs is measured against it. Runs only where it is forced; the
// rare product that oneDNN has no whole primitive for goes the other way.
void matmul_parallel(const MatMul::Args& args);

}  // namespace ea::onednn
