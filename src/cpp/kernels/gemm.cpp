// Converts the arguments of a matrix product to the plain numbers that BLAS
// libraries take.
#include "kernels/gemm.h"

#include <algorithm>

namespace ea {

MatMulProblem problem_of(const MatMul::Args& args) {
  const int rank = args.a.shape.rank();
  const auto rows = [&](const TensorView& t) { return t.shape[rank - 2]; };
  const auto cols = [&](const TensorView& t) { return t.shape[rank - 1]; };
  // The stride of a single row is arbitrary, but BLAS requires a valid one.
  const auto stride = [&](const TensorView& t) {
    return std::max({rows(t) > 1 ? t.strides[rank - 2] : cols(t), cols(t),
                     std::int64_t{1}});
  };
  MatMulProblem p{};
  p.batch = rank == 3 ? args.y.shape[0] : 1;
  p.m = rows(args.y);
  p.n = cols(args.y);
  p.k = args.transpose_a ? rows(args.a) : cols(args.a);
  p.a = args.a.data;
  p.b = args.b.data;
  p.bias = args.bias.data;
  p.y = args.y.data;
  p.a_stride = stride(args.a);
  p.b_stride = stride(args.b);
  p.a_batch = rank == 3 ? args.a.strides[0] : 0;
  p.b_batch = rank == 3 ? args.b.strides[0] : 0;
  p.transpose_a = args.transpose_a;
  p.transpose_b = args.transpose_b;
  p.alpha = static_cast<float>(args.alpha);
  return p;
}

}  // namespace ea
