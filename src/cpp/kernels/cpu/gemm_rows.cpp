// Caches a weight's panels for row products and picks the instruction set.
#include "kernels/cpu/gemm_rows.h"

#include <algorithm>

#include "kernels/cpu/kept_matrix.h"
#include "kernels/cpu/onednn/gemm.h"
#include "kernels/cpu/simd/targets.h"
#include "runtime/cpu_info.h"
#include "runtime/fast_paths.h"

namespace ea::cpu {

namespace {

std::int64_t cells(std::int64_t depth, bool pairs) {
  return pairs ? (depth + 1) / 2 : depth;
}

// The panels of a weight.
struct RowPanels : Storage::Derived {
  RowPanels(const MatMulProblem& p, DType dtype, bool pairs)
      : operand(p),
        dtype(dtype),
        pairs(pairs),
        data(static_cast<std::size_t>(row_panels_size(cells(p.k, pairs), p.n)) *
             sizeof(float)) {
    simd_kernel<PackRowPanels>()(
        {p, dtype, pairs, static_cast<float*>(data.data())});
  }
  bool made_of(const MatMulProblem& p, DType type, bool in_pairs) const {
    return operand == RightOperand(p) && dtype == type && pairs == in_pairs;
  }

  RightOperand operand;
  DType dtype;
  bool pairs;
  Storage data;
};

// Computes one product with temporary panels. It packs one slab of b (a span of
// columns and depth) at a time, so that panels stay in a cache and memory is
// bounded. Slabs of the depth accumulate through y, with the same bits.
void product_in_slabs(const MatMulProblem& p, DType dtype, bool pairs) {
  constexpr std::int64_t kSlab = 1 << 21;  // floats
  constexpr std::int64_t kDepth = 4096;
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t whole = std::max<std::int64_t>(p.k, 1);
  const std::int64_t depth =
      dtype == DType::f32 ? std::min(whole, kDepth) : whole;
  const std::int64_t cols = std::min(
      p.n, std::max(kSlab / depth, kWidestPanel) / kWidestPanel * kWidestPanel);
  const Storage panels(static_cast<std::size_t>(row_panels_size(depth, cols)) *
                       sizeof(float));
  const auto at = [&](const void* data, std::int64_t offset) {
    return static_cast<const char*>(data) + offset * size;
  };
  for (std::int64_t col = 0; col < p.n; col += cols) {
    for (std::int64_t d = 0; d == 0 || d < p.k; d += depth) {
      MatMulProblem q = p;
      q.n = std::min(cols, p.n - col);
      q.k = std::min(depth, p.k - d);
      q.a = at(p.a, a_offset(p, 0, d));
      q.b = at(p.b, b_offset(p, d, col));
      const bool last = d + depth >= p.k;
      q.bias = last && p.bias != nullptr ? at(p.bias, col) : nullptr;
      q.y = const_cast<char*>(at(p.y, col));
      auto* packed = static_cast<float*>(panels.data());
      simd_kernel<PackRowPanels>()({q, dtype, pairs, packed});
      simd_kernel<RowProduct>()({q, dtype, pairs, packed, p.n, d > 0});
    }
  }
}

bool plain(const MatMul::Args& args) {
  return args.y.shape.rank() == 2 && args.alpha == 1.0;
}

}  // namespace

std::int64_t row_panels_size(std::int64_t k, std::int64_t n) {
  return (n + kWidestPanel - 1) / kWidestPanel * kWidestPanel * k;
}

bool row_product_supports(const MatMul::Args& args) {
  return args.y.dtype == DType::f32 || args.y.dtype == DType::bf16;
}

bool multiplies_pairs() {
  return isa_used() == Isa::avx512 && has_avx512_bf16() && !has_amx_bf16() &&
         enabled(FastPath::bfloat16_pairs);
}

bool row_product_is_faster(const MatMul::Args& args) {
  if (args.y.dtype == DType::bf16) {
    return args.row_invariant && plain(args) && multiplies_pairs();
  }
  // Packing panels does not pay for few rows, and sgemm writes wide rows faster
  // unless a is transposed.
  constexpr std::int64_t kRows = 32, kWide = 2048;
  return isa_used() == Isa::avx2 && plain(args) && args.y.dtype == DType::f32 &&
         args.y.dim(0) >= kRows && (args.transpose_a || args.y.dim(1) < kWide);
}

void row_product(const MatMul::Args& args) {
  if (!plain(args)) return onednn::matmul(args);
  const MatMulProblem p = problem_of(args);
  if (p.m == 0 || p.n == 0) return;
  const bool pairs =
      args.y.dtype == DType::bf16 && !args.transpose_a && multiplies_pairs();
  if (args.kept_b == nullptr) return product_in_slabs(p, args.y.dtype, pairs);
  const auto panels =
      kept_or_made<RowPanels>(args.kept_b, p, args.y.dtype, pairs);
  simd_kernel<RowProduct>()({p, args.y.dtype, pairs,
                             static_cast<const float*>(panels->data.data()),
                             p.n, false});
}

}  // namespace ea::cpu
