// Computes a whole product with one primitive; oneDNN divides it among threads.
#include "kernels/cpu/onednn/engine.h"
#include "kernels/cpu/onednn/gemm.h"
#include "kernels/cpu/onednn/primitive_cache.h"
#include "kernels/cpu/onednn/problem.h"
#include "runtime/threads.h"

namespace ea::onednn {

namespace {

// Returns null where oneDNN has no fast product of this kind.
ProductPtr whole_product(const Problem& p, DType dtype) {
  ProductKey key{};
  key.m = p.m;
  key.n = p.n;
  key.k = p.k;
  key.a_stride = p.a_stride;
  key.b_stride = p.b_stride;
  key.y_stride = p.n;
  key.layout = p.transpose_b ? Layout::columns : Layout::rows;
  key.a_columns = p.transpose_a;
  key.bias = p.bias != nullptr;
  key.output = Output::same;
  key.dtype = dtype;
  key.threads = num_threads();
  return find_product(key);
}

}  // namespace

void matmul_parallel(const MatMul::Args& args) {
  const Problem p = problem_of(args);
  const bool plain =
      p.batch == 1 && p.m > 0 && p.n > 0 && p.k > 0 && p.alpha == 1.0f;
  const ProductPtr product = plain ? whole_product(p, args.y.dtype) : nullptr;
  if (product == nullptr) return matmul(args);
  const OnednnThreads threads(num_threads());
  execute(*product, {p.a, p.b, p.bias, p.y});
}

}  // namespace ea::onednn
