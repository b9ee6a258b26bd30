// Gathers rows by index: a plain copy, row by row.
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/run.h"
#include "kernels/gather.h"

namespace ea::cuda {

namespace {

constexpr int kThreads = 256;

// Copies `words` of type Word per row, one per thread; index -1 gives zeros.
template <typename Word>
__global__ void __launch_bounds__(kThreads)
    gather_kernel(const Word* x, const std::int64_t* index, Word* y,
                  std::int64_t rows, std::int64_t words) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= rows * words) return;
  const std::int64_t row = i / words;
  const std::int64_t from = index[row];
  y[i] = from < 0 ? Word{} : x[from * words + i % words];
}

template <typename Word>
void gather_as(const GatherRows::Args& args, std::int64_t row_bytes) {
  const std::int64_t words =
      row_bytes / static_cast<std::int64_t>(sizeof(Word));
  const std::int64_t rows = args.index.numel();
  launch(current_stream(), blocks_for(rows * words, kThreads), kThreads, 0,
         gather_kernel<Word>, args.x.as<const Word>(),
         args.index.as<const std::int64_t>(), args.y.as<Word>(), rows, words);
}

}  // namespace

template <>
void run<GatherRows>(const GatherRows::Args& args) {
  const std::int64_t row_bytes =
      args.y.dim(1) * static_cast<std::int64_t>(size_of(args.y.dtype));
  const auto fits = [&](std::uintptr_t word) {
    return row_bytes % static_cast<std::int64_t>(word) == 0 &&
           reinterpret_cast<std::uintptr_t>(args.x.data) % word == 0 &&
           reinterpret_cast<std::uintptr_t>(args.y.data) % word == 0;
  };
  if (fits(16)) return gather_as<uint4>(args, row_bytes);
  if (fits(4)) return gather_as<std::uint32_t>(args, row_bytes);
  if (fits(2)) return gather_as<std::uint16_t>(args, row_bytes);
  gather_as<std::uint8_t>(args, row_bytes);
}

}  // namespace ea::cuda
