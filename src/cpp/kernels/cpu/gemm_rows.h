// Row products: each row of y is summed independently of the other rows.
// Declares the parts compiled for each instruction set and their entry point.
// Used for inference and, with AVX2, for training too: oneDNN's sgemm does not
// pack the operands of tiles below about 512 x 768, and is then half as fast
// with a transposed a.
#pragma once

#include "kernels/gemm.h"
#include "runtime/dtype.h"

namespace ea::cpu {

// Columns of the widest panel (AVX-512).
constexpr std::int64_t kWidestPanel = 64;
// Returns the floats needed for b in panels, enough for every instruction set.
std::int64_t row_panels_size(std::int64_t k, std::int64_t n);

// Packs b of the problem into panels of columns (kernels/cpu/simd/tile-inl.h):
// of floats, or of pairs of bfloat16 along the depth.
struct PackRowPanels {
  struct Args {
    MatMulProblem problem;
    DType dtype;
    bool pairs;
    float* panels;
  };
};

// y = op(a) b + bias with b in panels; float32 or bfloat16, sums in float32.
// Rows of y are y_stride apart. `add`: accumulates onto y (float32).
struct RowProduct {
  struct Args {
    MatMulProblem problem;
    DType dtype;
    bool pairs;
    const float* panels;
    std::int64_t y_stride;
    bool add;
  };
};

// Whether bfloat16 is multiplied in pairs: with AVX512-BF16, except with AMX,
// whose tiles are faster.
bool multiplies_pairs();
// True for float32 and bfloat16.
bool row_product_supports(const MatMul::Args& args);
// Whether oneDNN's product takes longer.
bool row_product_is_faster(const MatMul::Args& args);
// Computes the product with the instruction set in use. Batches and factors go
// to oneDNN.
void row_product(const MatMul::Args& args);

}  // namespace ea::cpu
