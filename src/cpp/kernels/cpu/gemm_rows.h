// Products in which each row is summed by itself, whatever rows are beside it:
// the parts that are compiled for each instruction set, and their entry.
#pragma once

#include "kernels/gemm.h"
#include "runtime/dtype.h"

namespace ea::cpu {

// The floats that b in panels takes, for every instruction set.
std::int64_t row_panels_size(std::int64_t k, std::int64_t n);

// b of the problem, in float32 panels of columns (kernels/cpu/simd/tile-inl.h).
struct PackRowPanels {
  struct Args {
    MatMulProblem problem;
    DType dtype;
    float* panels;
  };
};

// y = a b + bias with b in panels; float32 or bfloat16, sums in float32.
struct RowProduct {
  struct Args {
    MatMulProblem problem;
    DType dtype;
    const float* panels;
  };
};

bool row_product_supports(const MatMul::Args& args);  // float32 and bfloat16
// The product, by the code for the instruction set in use. Products that are
// never row_invariant (kernels/gemm.h) go to oneDNN.
void row_product(const MatMul::Args& args);

}  // namespace ea::cpu
