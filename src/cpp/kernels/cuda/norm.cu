// Sum of squares of many tensors, in double: one chunk per block; one block
// adds the chunk sums in a fixed order.
#include <algorithm>
#include <vector>

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/run.h"
#include "kernels/cuda/scratch.h"
#include "kernels/cuda/vec.cuh"
#include "kernels/reduce.h"

namespace ea::cuda {

namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kChunk = 32768;  // elements per block

template <typename T>
struct Batch {
  static constexpr int kMost = 128;
  const T* data[kMost];
  std::int64_t numel[kMost];
  unsigned first_block[kMost + 1];
  int count = 0;
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    chunks_kernel(Batch<T> batch, double* sums) {
  EA_SHARED(double, partial, kWarp);
  int which = 0;
  while (blockIdx.x >= batch.first_block[which + 1]) ++which;
  const std::int64_t n = batch.numel[which];
  const std::int64_t begin =
      std::int64_t{blockIdx.x - batch.first_block[which]} * kChunk;
  const std::int64_t end = begin + kChunk < n ? begin + kChunk : n;
  const T* x = batch.data[which];
  const bool aligned = reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
  double total = 0.0;
  for (std::int64_t i = begin + threadIdx.x * kPack<T>; i < end;
       i += kThreads * kPack<T>) {
    float v[kPack<T>];
    load_pack(x + i, end - i, aligned, v);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) {
      total += static_cast<double>(v[k]) * static_cast<double>(v[k]);
    }
  }
  total = block_sum(total, partial);
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

__global__ void __launch_bounds__(kThreads)
    total_kernel(const double* sums, double* result, std::int64_t n) {
  EA_SHARED(double, partial, kWarp);
  double total = 0.0;
  for (std::int64_t i = threadIdx.x; i < n; i += kThreads) total += sums[i];
  total = block_sum(total, partial);
  if (threadIdx.x == 0) *result = total;
}

std::int64_t chunks_of(const TensorView& x) {
  return (x.numel() + kChunk - 1) / kChunk;
}

// Computes the chunk sums of the tensors of dtype T, in order. Returns the
// position after these sums.
template <typename T>
double* sum_chunks(const std::vector<TensorView>& xs, double* sums) {
  Batch<T> batch;
  batch.first_block[0] = 0;
  const auto flush = [&] {
    const unsigned blocks = batch.first_block[batch.count];
    launch(current_stream(), blocks, kThreads, 0, chunks_kernel<T>, batch,
           sums);
    sums += blocks;
    batch.count = 0;
  };
  for (const TensorView& x : xs) {
    if (x.dtype != dtype_of<T>() || x.numel() == 0) continue;
    batch.data[batch.count] = x.as<const T>();
    batch.numel[batch.count] = x.numel();
    batch.first_block[batch.count + 1] =
        batch.first_block[batch.count] + blocks_for(x.numel(), kChunk);
    if (++batch.count == Batch<T>::kMost) flush();
  }
  flush();
  return sums;
}

}  // namespace

template <>
void run<SumOfSquares>(const SumOfSquares::Args& args) {
  std::int64_t chunks = 0;
  for (const TensorView& x : *args.xs) chunks += chunks_of(x);
  const Scratch<double> sums(current_stream(), chunks);
  double* const next = sum_chunks<float>(*args.xs, sums.data());
  sum_chunks<bfloat16>(*args.xs, next);
  launch(current_stream(), 1, kThreads, 0, total_kernel, sums.data(),
         args.result.as<double>(), chunks);
}

}  // namespace ea::cuda
