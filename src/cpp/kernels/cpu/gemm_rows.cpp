// Keeps a weight's panels for products row by row, and picks the instruction
// set that computes them.
#include "kernels/cpu/gemm_rows.h"

#include <memory>

#include "kernels/cpu/onednn/gemm.h"
#include "kernels/cpu/simd/targets.h"
#include "runtime/cpu_info.h"
#include "tensor/storage.h"

namespace ea::cpu {

namespace {

template <typename K>
void run(const typename K::Args& args) {
  (isa_used() == Isa::avx512 ? simd::avx512::run<K> : simd::avx2::run<K>)(args);
}

// The panels of a weight, and which matrix they were made of.
struct RowPanels : Storage::Derived {
  RowPanels(const MatMulProblem& p, DType dtype)
      : b(p.b),
        k(p.k),
        n(p.n),
        stride(p.b_stride),
        transpose(p.transpose_b),
        dtype(dtype),
        data(static_cast<std::size_t>(row_panels_size(p.k, p.n)) *
             sizeof(float)) {
    run<PackRowPanels>({p, dtype, static_cast<float*>(data.data())});
  }
  bool made_of(const MatMulProblem& p, DType type) const {
    return b == p.b && k == p.k && n == p.n && stride == p.b_stride &&
           transpose == p.transpose_b && dtype == type;
  }

  const void* b;
  std::int64_t k, n, stride;
  bool transpose;
  DType dtype;
  Storage data;
};

// Those kept with b, or new ones, kept if that is allowed.
std::shared_ptr<const RowPanels> panels_of(const MatMulProblem& p, DType dtype,
                                           const Storage* kept) {
  if (kept == nullptr) return std::make_shared<const RowPanels>(p, dtype);
  auto found = std::dynamic_pointer_cast<const RowPanels>(kept->derived());
  if (found != nullptr && found->made_of(p, dtype)) return found;
  const std::uint64_t version = kept->version();
  found = std::make_shared<const RowPanels>(p, dtype);
  kept->keep(found, version);
  return found;
}

}  // namespace

std::int64_t row_panels_size(std::int64_t k, std::int64_t n) {
  constexpr std::int64_t kWidest = 32;  // columns of a panel, with AVX-512
  return (n + kWidest - 1) / kWidest * kWidest * k;
}

bool row_product_supports(const MatMul::Args& args) {
  return args.y.dtype == DType::f32 || args.y.dtype == DType::bf16;
}

void row_product(const MatMul::Args& args) {
  const bool plain =
      args.y.shape.rank() == 2 && !args.transpose_a && args.alpha == 1.0;
  if (!plain) return onednn::matmul(args);
  const MatMulProblem p = problem_of(args);
  if (p.m == 0 || p.n == 0) return;
  const auto panels = panels_of(p, args.y.dtype, args.kept_b);
  run<RowProduct>(
      {p, args.y.dtype, static_cast<const float*>(panels->data.data())});
}

}  // namespace ea::cpu
