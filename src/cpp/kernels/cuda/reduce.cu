// Sums over an axis: fixed chunks, whose sums are combined in a fixed tree.
#include <type_traits>

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/run.h"
#include "kernels/cuda/scratch.h"
#include "kernels/cuda/sum_columns.h"
#include "kernels/cuda/vec.cuh"
#include "kernels/reduce.h"

namespace ea::cuda {

namespace {

constexpr int kThreads = 256;
// Elements of a contiguous row that one block reduces. Longer rows take another
// pass over the chunk sums.
constexpr std::int64_t kRowChunk = 16384;
// Rows of a column that one block reduces, kLanes at a time.
constexpr std::int64_t kColumnChunk = 256;
constexpr int kLanes = kThreads / kWarp;

std::int64_t chunks_of(std::int64_t n, std::int64_t chunk) {
  return n <= chunk ? 1 : (n + chunk - 1) / chunk;
}

// y[o, c] = sum of chunk c of row o of x [outer, n]; one block per chunk.
template <typename In, typename Out>
__global__ void __launch_bounds__(kThreads)
    rows_kernel(const In* x, Out* y, std::int64_t n, std::int64_t chunks,
                bool aligned) {
  EA_SHARED(float, partial, kWarp);
  const std::int64_t row = blockIdx.x / chunks;
  const std::int64_t begin = blockIdx.x % chunks * kRowChunk;
  const std::int64_t end = begin + kRowChunk < n ? begin + kRowChunk : n;
  const In* p = x + row * n;
  float total = 0.0f;
  for (std::int64_t i = begin + threadIdx.x * kPack<In>; i < end;
       i += std::int64_t{kThreads} * kPack<In>) {
    float v[kPack<In>];
    load_pack(p + i, end - i, aligned, v);
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < kPack<In>; ++k) sum += v[k];
    total += sum;
  }
  total = block_sum(total, partial);
  if (threadIdx.x == 0) y[blockIdx.x] = Out(total);
}

// y[o, c, i] = sum over chunk c of n of x[o, n, i] / divisor. Each block
// processes 32 columns. Its warp w accumulates rows w, w + kLanes, ...; the
// sums of the warps are added in order.
template <typename In, typename Out>
__global__ void __launch_bounds__(kThreads)
    columns_kernel(const In* x, Out* y, std::int64_t n, std::int64_t inner,
                   std::int64_t chunks, std::int64_t column_blocks,
                   float divisor) {
  EA_SHARED(float, partial, kThreads);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t column = blockIdx.x % column_blocks * kWarp + lane;
  const std::int64_t block = blockIdx.x / column_blocks;
  const std::int64_t begin = block % chunks * kColumnChunk;
  const std::int64_t end = begin + kColumnChunk < n ? begin + kColumnChunk : n;
  const In* p = x + block / chunks * n * inner;
  float total = 0.0f;
  if (column < inner) {
    for (std::int64_t i = begin + warp; i < end; i += kLanes) {
      total += static_cast<float>(p[i * inner + column]);
    }
  }
  partial[threadIdx.x] = total;
  __syncthreads();
  if (warp != 0 || column >= inner) return;
  for (int w = 1; w < kLanes; ++w) total += partial[w * kWarp + lane];
  y[block * inner + column] = Out(total / divisor);
}

template <typename In, typename Out>
void sum_rows(const In* x, Out* y, std::int64_t outer, std::int64_t n) {
  const std::int64_t chunks = chunks_of(n, kRowChunk);
  const bool aligned = packs_aligned(x, outer == 1 ? 0 : n);
  const auto pass = [&](auto* to) {
    launch(current_stream(), blocks_for(outer * chunks, 1), kThreads, 0,
           rows_kernel<In, std::remove_pointer_t<decltype(to)>>, x, to, n,
           chunks, aligned);
  };
  if (chunks == 1) return pass(y);
  const Scratch<float> sums(current_stream(), outer * chunks);
  pass(sums.data());
  sum_rows<float, Out>(sums.data(), y, outer, chunks);
}

template <typename In, typename Out>
void columns_of(const In* x, Out* y, std::int64_t outer, std::int64_t n,
                std::int64_t inner, float divisor) {
  const std::int64_t chunks = chunks_of(n, kColumnChunk);
  const std::int64_t column_blocks = (inner + kWarp - 1) / kWarp;
  const auto pass = [&](auto* to, float by) {
    launch(current_stream(), blocks_for(outer * chunks * column_blocks, 1),
           kThreads, 0, columns_kernel<In, std::remove_pointer_t<decltype(to)>>,
           x, to, n, inner, chunks, column_blocks, by);
  };
  if (chunks == 1) return pass(y, divisor);
  const Scratch<float> sums(current_stream(), outer * chunks * inner);
  pass(sums.data(), 1.0f);
  columns_of<float, Out>(sums.data(), y, outer, chunks, inner, divisor);
}

}  // namespace

void sum_columns(const float* x, float* y, std::int64_t n, std::int64_t inner,
                 float divisor) {
  columns_of(x, y, 1, n, inner, divisor);
}

void sum_columns(const float* x, bfloat16* y, std::int64_t n,
                 std::int64_t inner, float divisor) {
  columns_of(x, y, 1, n, inner, divisor);
}

template <>
void run<Sum>(const Sum::Args& args) {
  const std::int64_t outer = args.x.dim(0);
  const std::int64_t n = args.x.dim(1);
  const std::int64_t inner = args.x.dim(2);
  visit_narrow(args.x.dtype, Sum::name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (inner == 1) {
      sum_rows(args.x.as<T>(), args.y.as<T>(), outer, n);
    } else {
      columns_of(args.x.as<T>(), args.y.as<T>(), outer, n, inner, 1.0f);
    }
  });
}

}  // namespace ea::cuda
