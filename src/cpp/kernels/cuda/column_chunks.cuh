// Sums over the rows of a matrix of terms that a functor computes per element:
// first chunks of rows in order, then the sums of the chunks.
#pragma once

#include "kernels/cuda/scratch.h"
#include "kernels/cuda/sum_columns.h"

namespace ea::cuda {

inline constexpr int kColumnThreads = 128;
// Rows that one block reduces, in order.
inline constexpr std::int64_t kChunkRows = 64;

// sums[s, c, column] = sum number s over chunk c of the rows, one thread per
// column. Terms defines kSums and terms(row, column, values), which sets the
// element's term of each sum.
template <typename Terms>
__global__ void __launch_bounds__(kColumnThreads)
    column_chunks_kernel(Terms terms, float* sums, std::int64_t rows,
                         std::int64_t width, std::int64_t chunks,
                         std::int64_t column_blocks) {
  const std::int64_t column =
      blockIdx.x % column_blocks * kColumnThreads + threadIdx.x;
  const std::int64_t chunk = blockIdx.x / column_blocks;
  if (column >= width) return;
  const std::int64_t begin = chunk * kChunkRows;
  const std::int64_t end =
      begin + kChunkRows < rows ? begin + kChunkRows : rows;
  float totals[Terms::kSums] = {};
  for (std::int64_t row = begin; row < end; ++row) {
    float values[Terms::kSums];
    terms(row, column, values);
#pragma unroll
    for (int s = 0; s < Terms::kSums; ++s) totals[s] += values[s];
  }
#pragma unroll
  for (int s = 0; s < Terms::kSums; ++s) {
    sums[(s * chunks + chunk) * width + column] = totals[s];
  }
}

// Sums of the chunks of a matrix [rows, width], computed by the constructor.
class ColumnChunks {
 public:
  template <typename Terms>
  ColumnChunks(const Terms& terms, std::int64_t rows, std::int64_t width)
      : chunks_((rows + kChunkRows - 1) / kChunkRows),
        width_(width),
        sums_(current_stream(), Terms::kSums * chunks_ * width) {
    const std::int64_t column_blocks =
        (width + kColumnThreads - 1) / kColumnThreads;
    launch(current_stream(), blocks_for(chunks_ * column_blocks, 1),
           kColumnThreads, 0, column_chunks_kernel<Terms>, terms, sums_.data(),
           rows, width, chunks_, column_blocks);
  }

  // y [width] = sum number s / divisor.
  template <typename Y>
  void finish(int s, Y* y, float divisor = 1.0f) const {
    sum_columns(sums_.data() + s * chunks_ * width_, y, chunks_, width_,
                divisor);
  }

 private:
  std::int64_t chunks_, width_;
  Scratch<float> sums_;
};

}  // namespace ea::cuda
