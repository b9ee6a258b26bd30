// Products in which each row is summed by itself, whatever rows are beside it:
// the parts that are compiled for each instruction set, and their entry. They
// serve inference. With AVX2 they also serve training: oneDNN's sgemm does not
// pack the operands of tiles below some 512 x 768, and is half as fast with a
// transposed a then.
#pragma once

#include "kernels/gemm.h"
#include "runtime/dtype.h"

namespace ea::cpu {

// Columns of the widest panel, AVX-512's.
constexpr std::int64_t kWidestPanel = 64;
// The floats that b in panels takes, for every instruction set.
std::int64_t row_panels_size(std::int64_t k, std::int64_t n);

// b of the problem, in panels of columns (kernels/cpu/simd/tile-inl.h) of
// floats, or of pairs of bfloat16 along the depth.
struct PackRowPanels {
  struct Args {
    MatMulProblem problem;
    DType dtype;
    bool pairs;
    float* panels;
  };
};

// y = op(a) b + bias with b in panels; float32 or bfloat16, sums in float32.
// Rows of y are y_stride apart. `add`: sums go on from y (float32).
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

// Whether bfloat16 is multiplied in pairs: with AVX512-BF16, but not with AMX,
// whose tiles are faster.
bool multiplies_pairs();
// float32 and bfloat16.
bool row_product_supports(const MatMul::Args& args);
// Whether oneDNN's takes longer.
bool row_product_is_faster(const MatMul::Args& args);
// The product, by the code for the instruction set in use. Batches and factors
// go to oneDNN.
void row_product(const MatMul::Args& args);

}  // namespace ea::cpu
