// Copies products by distance to maps, and sums maps by distance: one warp per
// row.
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/map_rows.cuh"
#include "kernels/cuda/run.h"
#include "kernels/relative_cells.h"

namespace ea::cuda {

namespace {

constexpr int kThreads = 128;
constexpr int kRows = kThreads / kWarp;  // per block

__device__ inline std::int64_t clip(std::int64_t x, std::int64_t low,
                                    std::int64_t high) {
  return x < low ? low : x > high ? high : x;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    cells_kernel(MapRows maps, const T* x, T* y, std::int64_t width) {
  const std::int64_t row =
      std::int64_t{blockIdx.x} * kRows + threadIdx.x / kWarp;
  if (row >= maps.rows()) return;
  const TokenRow at = token_row(maps, maps.q, row);
  const int b = at.sequence;
  const std::int64_t keys = maps.k[b + 1] - maps.k[b];
  const std::int64_t furthest = width / 2;
  x += ((maps.q[b] + at.token) * maps.heads + at.head) * width + furthest;
  y += maps.cell(b, at.head, at.token);
  for (std::int64_t j = threadIdx.x % kWarp; j < keys; j += kWarp) {
    y[j] = x[clip(j - at.token, -furthest, furthest)];
  }
}

// Returns the sum of x[begin .. end) to all lanes; each lane accumulates every
// 32nd element.
template <typename T>
__device__ inline float sum_of_cells(const T* x, std::int64_t begin,
                                     std::int64_t end) {
  float total = 0.0f;
  for (std::int64_t j = begin + threadIdx.x % kWarp; j < end; j += kWarp) {
    total += static_cast<float>(x[j]);
  }
  return warp_reduce(total);
}

// Cells [0, below) have distance -D or less and are summed into the first
// column; cells [above, keys) have D or more and go to the last. Each other
// cell has its own column. With D = 0 there is one column.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    sums_kernel(MapRows maps, const T* x, T* y, std::int64_t width) {
  const std::int64_t row =
      std::int64_t{blockIdx.x} * kRows + threadIdx.x / kWarp;
  if (row >= maps.rows()) return;
  const TokenRow at = token_row(maps, maps.q, row);
  const int b = at.sequence;
  const std::int64_t keys = maps.k[b + 1] - maps.k[b];
  const std::int64_t furthest = width / 2;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  x += maps.cell(b, at.head, at.token);
  y += ((maps.q[b] + at.token) * maps.heads + at.head) * width;
  const std::int64_t below =
      furthest == 0 ? keys : clip(at.token - furthest + 1, 0, keys);
  const float low = sum_of_cells(x, 0, below);
  if (lane == 0) y[0] = T(low);
  if (furthest == 0) return;
  const std::int64_t above = clip(at.token + furthest, below, keys);
  const float high = sum_of_cells(x, above, keys);
  if (lane == 0) y[width - 1] = T(high);
  for (std::int64_t e = 1 + lane; e < width - 1; e += kWarp) {
    const std::int64_t j = at.token + e - furthest;
    y[e] = j >= below && j < above ? x[j] : T(0.0f);
  }
}

template <typename T>
void relative_cells_of(const RelativeCells::Args& args) {
  for_map_rows(args.layout, [&](const MapRows& maps) {
    launch(current_stream(), blocks_for(maps.rows(), kRows), kThreads, 0,
           cells_kernel<T>, maps, args.x.as<const T>(), args.y.as<T>(),
           args.x.dim(1));
  });
}

template <typename T>
void relative_sums_of(const RelativeSums::Args& args) {
  for_map_rows(args.layout, [&](const MapRows& maps) {
    launch(current_stream(), blocks_for(maps.rows(), kRows), kThreads, 0,
           sums_kernel<T>, maps, args.x.as<const T>(), args.y.as<T>(),
           args.y.dim(1));
  });
}

}  // namespace

EA_RUN_CUDA(RelativeCells, relative_cells_of, y)
EA_RUN_CUDA(RelativeSums, relative_sums_of, y)

}  // namespace ea::cuda
