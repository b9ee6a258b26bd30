// Matrix products by oneDNN, cut into single-threaded tiles of fixed shape.
#pragma once

#include "kernels/gemm.h"

namespace ea::onednn {

bool matmul_supports(const MatMul::Args& args);  // float32 and bfloat16
void matmul(const MatMul::Args& args);

}  // namespace ea::onednn
