// Partition of work into jobs (by shape only), and scratch memory for them.
#pragma once

#include <cstdint>

#include "kernels/cpu/simd/vec-inl.h"
#include "runtime/allocator.h"
#include "runtime/threads.h"

namespace ea::simd::EA_TARGET {
namespace {

// Elements of one job: 128 KiB of float32, some 20 us at memory speed. Long
// enough to hide the cost of starting a job, short enough to balance the
// threads.
constexpr std::int64_t kGrain = 32768;

EA_INLINE std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Returns how many items of `size` elements make a job, at least 1.
EA_INLINE std::int64_t items_per_job(std::int64_t size) {
  return size >= kGrain ? 1 : size > 0 ? kGrain / size : kGrain;
}

// Returns the rows per block of partial sums: a job's worth, but at most 256
// blocks, which bounds the memory of the partial sums.
EA_INLINE std::int64_t rows_per_block(std::int64_t rows, std::int64_t width) {
  const std::int64_t by_work = items_per_job(width);
  const std::int64_t by_memory = ceil_div(rows, 256);
  return by_work > by_memory ? by_work : by_memory;
}

// Calls fn(i) for each i below n, in jobs of `grain` items.
template <typename Fn>
EA_INLINE void parallel_each(std::int64_t n, std::int64_t grain, const Fn& fn) {
  parallel_chunks(n, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) fn(i);
  });
}

class Scratch {
 public:
  explicit Scratch(std::int64_t bytes)
      : block_(allocate(static_cast<std::size_t>(bytes))) {}
  ~Scratch() { deallocate(block_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  template <typename T>
  EA_INLINE T* as() const {
    return static_cast<T*>(block_.data);
  }

 private:
  MemoryBlock block_;
};

constexpr std::int64_t kLine = 16;  // floats of a cache line

// Rounds up to whole cache lines: a number of floats, or an address, at most
// kLine - 1 floats further on.
EA_INLINE std::int64_t whole_lines(std::int64_t floats) {
  return ceil_div(floats, kLine) * kLine;
}
EA_INLINE float* aligned(float* memory) {
  constexpr std::uintptr_t kBytes = kLine * sizeof(float);
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  return reinterpret_cast<float*>((at + kBytes - 1) / kBytes * kBytes);
}

// y[i] = sum over blocks b of partial[b * stride + i], in the order of b.
template <typename T>
EA_INLINE void combine_blocks(const float* partial, std::int64_t blocks,
                              std::int64_t stride, T* y, std::int64_t n) {
  for_vectors(n, [&](std::int64_t i, auto part) {
    Vf sum = set(0.0f);
    for (std::int64_t b = 0; b < blocks; ++b) {
      sum += load(partial + b * stride + i, part);
    }
    store(y + i, sum, part);
  });
}

}  // namespace
}  // namespace ea::simd::EA_TARGET
