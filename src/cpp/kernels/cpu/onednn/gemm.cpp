// Chooses how a product is computed: in float32 through oneDNN's sgemm (any
// shape and stride, nothing to cache), in bfloat16 with b in panels
// (gemm_blocked.cpp) or by gemm_bf16.cpp.
#include "kernels/cpu/onednn/gemm.h"

#include <cstdlib>
#include <cstring>

#include "kernels/cpu/onednn/engine.h"
#include "kernels/cpu/onednn/gemm_bf16.h"
#include "kernels/cpu/onednn/gemm_blocked.h"
#include "kernels/cpu/onednn/problem.h"
#include "kernels/cpu/onednn/transpose.h"
#include "runtime/check.h"
#include "runtime/cpu_info.h"
#include "runtime/signals.h"
#include "runtime/threads.h"
#include "tensor/storage.h"

namespace ea::onednn {

namespace {

// sgemm packs b again for every row of tiles, and a for every column of tiles.
// A transposed b costs most to pack, so it gets few tall tiles.
Tiles f32_tiles(const Problem& p) {
  const std::int64_t most = p.transpose_b ? 2 : 1;
  return tiles_within(
      p, {.rows = 512, .cols = 768, .col_step = 16, .work = 1 << 22},
      [&](std::int64_t rows, std::int64_t cols) { return rows > most * cols; });
}

// sgemm takes its buffers of a megabyte or two from malloc, aligned to 128
// bytes. glibc keeps the slivers before and after such a block in the thread's
// cache of small blocks, where they do not rejoin it. The freed block is then
// too short for the next call, which takes new memory: 40 products left 55 MB
// of such blocks in the heap (tests/kernels/test_matmul_tiles.py). While that
// cache is full, the slivers rejoin their block.
void fill_cache_of_small_blocks() {
  constexpr int kSizes = 11, kEach = 7;   // 24 to 184 bytes
  void* volatile blocks[kSizes * kEach];  // volatile keeps malloc and free
  for (int i = 0; i < kSizes * kEach; ++i) {
    blocks[i] = std::malloc(24 + i / kEach * 16);
  }
  for (void* const block : blocks) std::free(block);
}

void f32_tile(const Problem& p, std::int64_t batch, const Rectangle& r) {
  const float* a = static_cast<const float*>(p.a) + batch * p.a_batch +
                   a_offset(p, r.row, 0);
  const float* b = static_cast<const float*>(p.b) + batch * p.b_batch +
                   b_offset(p, 0, r.col);
  float* y = static_cast<float*>(p.y) + (batch * p.m + r.row) * p.n + r.col;
  if (p.bias != nullptr) {
    const float* bias = static_cast<const float*>(p.bias) + r.col;
    for (std::int64_t i = 0; i < r.rows; ++i) {
      std::memcpy(y + i * p.n, bias, sizeof(float) * r.cols);
    }
  }
  const SingleThreaded single;
  constexpr std::int64_t kLarge = 1 << 22;  // smaller ones have small buffers
  if (r.rows * r.cols * p.k >= kLarge) fill_cache_of_small_blocks();
  const dnnl_status_t status =
      dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', r.rows,
                 r.cols, p.k, p.alpha, a, p.a_stride, b, p.b_stride,
                 p.bias != nullptr ? 1.0f : 0.0f, y, p.n);
  EA_CHECK_AS(Error, status == dnnl_success, "matmul",
              "oneDNN's sgemm failed with status {}", static_cast<int>(status));
}

void f32_tiles_product(const Problem& p) {
  const Tiles tiles = f32_tiles(p);
  // For most shapes sgemm's kernel uses the stack pointer as an ordinary
  // register. While it points into the heap, a signal handler would write its
  // frame over other blocks of malloc. Workers always block signals; the caller
  // blocks them once for all its tiles.
  const SignalsBlocked blocked;
  parallel_for(p.batch * tiles.count(), [&](std::int64_t job) {
    f32_tile(p, job / tiles.count(), tile_at(p, tiles, job % tiles.count()));
  });
}

void f32_product(const Problem& p) {
  initialize();
  // sgemm packs a transposed b slowly, once per row of tiles. With enough rows
  // it pays to transpose b once.
  constexpr std::int64_t kRows = 128, kDepth = 256, kDeep = 1024;
  const bool pays = p.m >= kRows && (p.k >= kDeep || p.m >= 2 * p.n);
  if (!p.transpose_b || p.batch != 1 || p.k < kDepth || !pays) {
    return f32_tiles_product(p);
  }
  const std::int64_t stride = round_up(p.n, 16);
  const Storage b(p.k * stride * sizeof(float));
  transpose_padded(static_cast<const float*>(p.b), p.b_stride, p.n, p.k,
                   static_cast<float*>(b.data()), stride);
  Problem q = p;
  q.b = b.data();
  q.b_stride = stride;
  q.transpose_b = false;
  f32_tiles_product(q);
}

// Writes y for k = 0: the bias, or zero.
void no_depth(const Problem& p, std::size_t element) {
  char* y = static_cast<char*>(p.y);
  for (std::int64_t row = 0; row < p.batch * p.m; ++row) {
    char* at = y + row * p.n * element;
    if (p.bias != nullptr) {
      std::memcpy(at, p.bias, p.n * element);
    } else {
      std::memset(at, 0, p.n * element);
    }
  }
}

}  // namespace

bool matmul_supports(const MatMul::Args& args) {
  // sgemm's summation order depends on the shape. kernels/cpu/gemm_rows.h sums
  // each row independently, and so does oneDNN with AMX in bfloat16 panels.
  const bool by_row = args.row_invariant && isa_used() != Isa::scalar;
  if (args.y.dtype == DType::f32) return !by_row;
  return args.y.dtype == DType::bf16 && (!by_row || has_bf16());
}

void matmul(const MatMul::Args& args) {
  const Problem p = problem_of(args);
  if (p.batch == 0 || p.m == 0 || p.n == 0) return;
  if (p.k == 0) {
    no_depth(p, size_of(args.y.dtype));
  } else if (args.y.dtype == DType::f32) {
    f32_product(p);
  } else if (!args.row_invariant || !blocked_product(p, args.kept_b)) {
    bf16_product(p, f32_product);
  }
}

}  // namespace ea::onednn
